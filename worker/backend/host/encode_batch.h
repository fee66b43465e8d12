/*
 * Images for encode_begin() (worker/backend/host/backend.h), which reads their pixels before it
 * returns.
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_ENCODE_BATCH_H
#define SHOAL_WORKER_BACKEND_HOST_ENCODE_BATCH_H

#include <stdint.h>

#include "worker/plan/model_vision.h"

/* One image to encode. */
struct encode_image {
    struct image_shape shape;   /* accepted by model_vision_check() */
    struct image_mosaic mosaic; /* accepted by model_vision_check_mosaic() */
    const uint8_t *pixels;      /* [tiles, frames, height, width, 3] */
    float scale[3];             /* red, green, blue: a value is pixel * scale + bias */
    float bias[3];
    uint32_t first_feature; /* first row in the pool; takes model_vision_image_rows() rows */
};

struct encode_batch {
    uint32_t image_count; /* total patch rows: 1..max_patch_rows */
    const struct encode_image *images;
};

#endif
