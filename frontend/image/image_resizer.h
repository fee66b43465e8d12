/*
 * Resizing as in PIL and torch, byte for byte: along rows, then along columns, each a
 * convolution whose window grows when an image shrinks (antialiasing), in fixed point, rounded to
 * bytes in between.
 *
 *   out[i] = clip((half + sum of weight[i][k] * in[first[i] + k]) >> bits)
 *   weight = filter((first + k + 0.5 - centre) / stretch), normalized; centre = (i + 0.5) * ratio
 *
 * The two differ only in `bits` and in the width of the weights.
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_RESIZER_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_RESIZER_H

#include <stdint.h>

#include "frontend/image/image_pixels.h"
#include "proto/result.h"

enum image_filter {
    IMAGE_FILTER_BILINEAR,
    IMAGE_FILTER_BICUBIC, /* a = -0.5 */
    IMAGE_FILTER_LANCZOS, /* 3 lobes */
    IMAGE_FILTERS
};

enum image_arithmetic {
    IMAGE_ARITHMETIC_PIL,  /* weights of 22 bits (libImaging/Resample.c) */
    IMAGE_ARITHMETIC_TORCH /* weights of at most 15 (torch 2.6's upsampling of bytes with AVX2,
                              which torchvision's resize() uses) */
};

/* Fills `out`, u8 [height, width, 3]; both sizes are 1..LIMIT_SOURCE_IMAGE_SIDE. RESULT_TOO_LARGE
 * if the result of the first pass exceeds LIMIT_SOURCE_IMAGE_PIXELS; RESULT_OUT_OF_MEMORY. */
enum result image_resizer_run(const struct image_pixels *source, uint32_t width, uint32_t height,
                              enum image_filter filter, enum image_arithmetic arithmetic,
                              uint8_t *out, struct error_text *error) RESULT_CHECKED;

#endif
