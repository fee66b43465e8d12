/*
 * A decoded image: upright, 8-bit RGB, without alpha or palette.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_PIXELS_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_PIXELS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

#define IMAGE_CHANNELS 3u /* red, green, blue */

/* Who releases the memory, and how. */
enum pixel_store {
    PIXELS_ON_HEAP = 0, /* free() */
    PIXELS_BORROWED     /* the owner does */
};

struct image_pixels {
    uint32_t width;
    uint32_t height;
    uint8_t *rgb; /* [height, width, 3]; NULL: none */
    enum pixel_store store;
};

/* Allocates an image on the heap, not filled; sizes are within LIMIT_SOURCE_IMAGE_*.
 * RESULT_OUT_OF_MEMORY. */
enum result image_pixels_init(struct image_pixels *pixels, uint32_t width, uint32_t height,
                              struct error_text *error) RESULT_CHECKED;
/* Calling it twice is safe. */
void image_pixels_fini(struct image_pixels *pixels);

size_t image_pixels_bytes(uint32_t width, uint32_t height);

/* Turns a stored image upright by EXIF's orientation, 1 to 8 (others: unchanged). On
 * RESULT_OUT_OF_MEMORY it is unchanged. */
enum result image_pixels_orient(struct image_pixels *pixels, unsigned orientation,
                                struct error_text *error) RESULT_CHECKED;
/* The same into `out`, which has as many bytes and is not part of `pixels`. */
void image_pixels_orient_into(const struct image_pixels *pixels, unsigned orientation,
                              uint8_t *out);

#endif
