/*
 * A decoded picture: upright, 8 bits a channel, nothing left of alpha or palette.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_PIXELS_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_PIXELS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

#define IMAGE_CHANNELS 3u /* red, green, blue */

struct image_pixels {
    uint32_t width;
    uint32_t height;
    uint8_t *rgb; /* [height, width, 3], malloc'd; NULL when there is none */
};

/* Room for a picture, not filled. RESULT_OUT_OF_MEMORY; sizes are within LIMIT_PICTURE_*. */
enum result image_pixels_init(struct image_pixels *pixels, uint32_t width, uint32_t height,
                              struct error_text *error) RESULT_CHECKED;
/* Twice is fine. */
void image_pixels_fini(struct image_pixels *pixels);

size_t image_pixels_bytes(uint32_t width, uint32_t height);

/* Turns a picture as stored into the upright one by EXIF's orientation, 1 to 8 (others: as is).
 * RESULT_OUT_OF_MEMORY leaves it as it was. */
enum result image_pixels_orient(struct image_pixels *pixels, unsigned orientation,
                                struct error_text *error) RESULT_CHECKED;

#endif
