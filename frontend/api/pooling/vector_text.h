/*
 * Vectors as JSON: cut to fewer columns, scaled to a length, as numbers or as base64.
 */
#ifndef SHOAL_FRONTEND_API_POOLING_VECTOR_TEXT_H
#define SHOAL_FRONTEND_API_POOLING_VECTOR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/base/text_buffer.h"

/* Norms as llama.cpp names them: -1 none, 0 the largest magnitude becomes 32760, p > 0 the p-norm
 * becomes 1. */
#define VECTOR_NORM_NONE      -1
#define VECTOR_NORM_EUCLIDEAN 2

struct vector_form {
    int norm;
    uint32_t dimensions; /* columns that stay, before the norm is taken; 0: all */
    bool base64;         /* of little-endian f32 */
};

/* Changes the vector in place; returns its number of columns. A vector of zeros stays. */
size_t vector_text_shape(const struct vector_form *form, float *vector, size_t columns);
/* Appends a list of numbers, from which the same f32 are read again, or a base64 string. */
void vector_text_append(const struct vector_form *form, const float *vector, size_t columns,
                        struct text_buffer *out);

#endif
