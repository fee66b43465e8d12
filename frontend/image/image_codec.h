/*
 * What a decoder of one kind of file offers to image_decoder.c: a probe of headers and a decoding.
 * Sizes here are as stored, before orientation; the caller holds them to the limits in between.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_CODEC_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_CODEC_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/image/image_pixels.h"
#include "proto/result.h"

struct image_source {
    const uint8_t *bytes;
    size_t byte_count;
    uint32_t width; /* probe fills these in, and decoding finds them so or fails */
    uint32_t height;
    uint8_t orientation; /* probe: EXIF's, 1..8 */
    uint32_t scans;     /* of a JPEG, 1..LIMIT_PICTURE_SCANS: probe counts, decoding does no more */
    uint32_t reduction; /* decoding: 1, or for a JPEG 2, 4 or 8: sides are divided, rounded up */
    const atomic_bool *cancelled; /* decoding: NULL, or true once the result is not wanted */
};

/* RESULT_CANCELLED once the result is not wanted. Decoders ask for each row or scan, or for some
 * thousand codes; libwebp, which decodes in one call, is asked before and after it. */
static inline enum result image_codec_check(const struct image_source *source,
                                            struct error_text *error)
{
    if (!source->cancelled || !atomic_load_explicit(source->cancelled, memory_order_relaxed))
        return RESULT_OK;
    return error_set(error, RESULT_CANCELLED, "its decoding was cancelled");
}

/* RESULT_INVALID or RESULT_UNSUPPORTED with words; sizes are at least 1. Allocates no more than
 * some kilobytes and the metadata that are in the file. */
enum result jpeg_codec_probe(struct image_source *source, struct error_text *error) RESULT_CHECKED;
enum result png_codec_probe(struct image_source *source, struct error_text *error) RESULT_CHECKED;
enum result webp_codec_probe(struct image_source *source, struct error_text *error) RESULT_CHECKED;
enum result gif_codec_probe(struct image_source *source, struct error_text *error) RESULT_CHECKED;

/* `pixels` is set on success only. */
enum result jpeg_codec_decode(const struct image_source *source, struct image_pixels *pixels,
                              struct error_text *error) RESULT_CHECKED;
enum result png_codec_decode(const struct image_source *source, struct image_pixels *pixels,
                             struct error_text *error) RESULT_CHECKED;
enum result webp_codec_decode(const struct image_source *source, struct image_pixels *pixels,
                              struct error_text *error) RESULT_CHECKED;
enum result gif_codec_decode(const struct image_source *source, struct image_pixels *pixels,
                             struct error_text *error) RESULT_CHECKED;

/* One pixel over white, in PIL's fixed point (libImaging/AlphaComposite.c); alpha 0 is white. */
static inline uint8_t image_codec_over_white(uint8_t value, uint8_t alpha)
{
    uint32_t share = (uint32_t)alpha << 7, rest = (255u << 7) - share;
    uint32_t sum = value * share + 255u * rest + (0x80u << 7);
    return (uint8_t)((((sum >> 8) + sum) >> 8) >> 7);
}

#endif
