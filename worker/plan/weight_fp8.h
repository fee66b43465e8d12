/*
 * Matrices of 8-bit floats (E4M3) with one scale for the matrix, for each row, or for each block of
 * rows and columns. Private to weight_source.c and weight_nibbles.c.
 */
#ifndef SHOAL_WORKER_PLAN_WEIGHT_FP8_H
#define SHOAL_WORKER_PLAN_WEIGHT_FP8_H

#include "worker/plan/weight_layout.h"

/* F8_128 or F8_32, the type with the larger blocks whose blocks each have one scale, or BF16. */
enum ggml_type weight_fp8_type(const struct weight_source *source, uint64_t rows, uint64_t columns);

/* The contract of weight_source_read(); `span`: whole blocks of the source's type. */
void weight_fp8_read(const struct weight_source *source, uint32_t columns, struct weight_span span,
                     uint8_t *out);

/* The bits of the nearest BF16, ties to even. */
uint16_t weight_fp8_round(float value);

#endif
