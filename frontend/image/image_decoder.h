/*
 * From the bytes of a file to pixels: JPEG, PNG, WebP and the first frame of a GIF, told apart by
 * their first bytes and never by what a client calls them.
 *
 * Pixels are those of PIL 11.1's Image.open(), ImageOps.exif_transpose() and conversion to RGB with
 * alpha over white. Two steps, so that a request is refused, planned and counted before anything of
 * a picture's size is allocated: probe reads headers only.
 *
 * Every failure's words say what is wrong with the picture, for the client who sent it.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_DECODER_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_DECODER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/image/image_pixels.h"
#include "proto/result.h"

enum image_kind { IMAGE_JPEG, IMAGE_PNG, IMAGE_WEBP, IMAGE_GIF, IMAGE_KINDS };

struct image_header {
    enum image_kind kind;
    uint32_t width; /* upright, as decoding gives it: 1..LIMIT_PICTURE_SIDE */
    uint32_t height;
    uint8_t orientation; /* EXIF's, 1..8: how the stored picture is turned to stand upright */
    uint32_t scans;      /* of a JPEG, each of which costs a pass over all pixels; otherwise 1 */
};

/*
 * RESULT_TOO_LARGE over LIMIT_PICTURE_BYTES, _SIDE or _PIXELS; RESULT_UNSUPPORTED for another kind
 * of file (the words name those that are taken) or a variant of one; RESULT_INVALID for a header
 * that is cut off or contradicts itself.
 */
enum result image_decoder_probe(const uint8_t *bytes, size_t byte_count,
                                struct image_header *header,
                                struct error_text *error) RESULT_CHECKED;

/*
 * `header` is probe's of the same bytes; `wanted_width` and `wanted_height` say what the picture is
 * going to be resized to (0: unknown). A JPEG of more than LIMIT_PICTURE_EXACT_PIXELS is decoded at
 * a half, a quarter or an eighth of its size where that is still twice what is wanted both ways;
 * then `pixels` has that size. Everything else is decoded as it is.
 *
 * RESULT_INVALID for a picture that is cut off or broken, RESULT_TOO_LARGE when decoding it needs
 * more than LIMIT_PICTURE_WORK_BYTES, RESULT_OUT_OF_MEMORY. RESULT_CANCELLED soon after *cancelled
 * (NULL: never) became true in another thread; a WebP is decoded to its end first. Only on success
 * is `pixels` set.
 */
enum result image_decoder_run(const uint8_t *bytes, size_t byte_count,
                              const struct image_header *header, uint32_t wanted_width,
                              uint32_t wanted_height, const atomic_bool *cancelled,
                              struct image_pixels *pixels, struct error_text *error) RESULT_CHECKED;

#endif
