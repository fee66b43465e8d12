/*
 * The functions of each decoder, for image_decoder.c: a probe of the headers, and the decoding.
 * Sizes are as stored, before orientation; image_decoder.c checks the limits between the two.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_CODEC_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "frontend/image/image_pixels.h"
#include "proto/result.h"

struct image_source {
    const uint8_t *bytes;
    size_t byte_count;
    uint32_t width; /* set by probe; decoding fails if the file has others */
    uint32_t height;
    uint8_t orientation; /* probe: EXIF's, 1..8 */
    uint32_t scans; /* of a JPEG, 1..LIMIT_JPEG_SCANS: set by probe, the most that decoding reads */
    uint32_t reduction; /* decoding: 1, or for a JPEG 2, 4 or 8: sides are divided, rounded up */
    uint8_t *out;       /* decoding: where the pixels go; NULL: heap memory */
};

/* The result of a decoder, not filled: in source->out, or malloc'd. RESULT_OUT_OF_MEMORY. */
static inline enum result image_codec_begin(const struct image_source *source, uint32_t width,
                                            uint32_t height, struct image_pixels *pixels,
                                            struct error_text *error)
{
    if (!source->out)
        return image_pixels_init(pixels, width, height, error);
    *pixels = (struct image_pixels){width, height, source->out, PIXELS_BORROWED};
    return RESULT_OK;
}

/* RESULT_INVALID or RESULT_UNSUPPORTED with a text; sizes are at least 1. Allocates a few kilobytes
 * and the metadata of the file. */
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
