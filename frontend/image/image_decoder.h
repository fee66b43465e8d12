/*
 * Decodes an image file to pixels: JPEG, PNG, WebP, and the first frame of a GIF. The first bytes
 * decide the kind, never the client's media type.
 *
 * Pixels are those of PIL 11.1's Image.open(), ImageOps.exif_transpose() and conversion to RGB with
 * alpha over white. There are two steps, so that a request is rejected, planned and counted before
 * anything of an image's size is allocated: probe reads headers only.
 *
 * Every failure has a text about the image, for the client who sent it.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_DECODER_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_DECODER_H

#include <stddef.h>
#include <stdint.h>

#include "frontend/image/image_header.h"
#include "frontend/image/image_pixels.h"
#include "proto/result.h"

/*
 * RESULT_TOO_LARGE over LIMIT_SOURCE_IMAGE_BYTES, _SIDE or _PIXELS; RESULT_UNSUPPORTED for another
 * kind of file (the text names the supported ones) or variant; RESULT_INVALID for a header that is
 * cut off or contradicts itself.
 */
enum result image_decoder_probe(const uint8_t *bytes, size_t byte_count,
                                struct image_header *header,
                                struct error_text *error) RESULT_CHECKED;

/*
 * `header` is from image_decoder_probe() of the same bytes; `wanted_width` and `wanted_height` are
 * the size that the image will be resized to (0: unknown). A JPEG of more than
 * LIMIT_JPEG_EXACT_PIXELS is decoded at 1/2, 1/4 or 1/8 of its size if both sides are then still at
 * least twice the wanted ones; `pixels` has the reduced size. Other images are decoded in full.
 *
 * RESULT_INVALID if the image is cut off or broken, RESULT_TOO_LARGE if decoding needs more than
 * LIMIT_JPEG_WORK_BYTES, RESULT_OUT_OF_MEMORY. `pixels` is set on success only.
 */
enum result image_decoder_run(const uint8_t *bytes, size_t byte_count,
                              const struct image_header *header, uint32_t wanted_width,
                              uint32_t wanted_height, struct image_pixels *pixels,
                              struct error_text *error) RESULT_CHECKED;
/* The same into `out`, which has image_pixels_bytes() of image_header_decoded_size(). On failure its
 * content is undefined. */
enum result image_decoder_run_into(const uint8_t *bytes, size_t byte_count,
                                   const struct image_header *header, uint32_t wanted_width,
                                   uint32_t wanted_height, uint8_t *out,
                                   struct error_text *error) RESULT_CHECKED;

#endif
