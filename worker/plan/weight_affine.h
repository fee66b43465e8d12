/*
 * MLX's group-quantized matrices: codes of 2 to 8 bits in column order, and a scale and a bias per
 * group of columns: weight = scale * code + bias. Private to weight_source.c.
 */
#ifndef SHOAL_WORKER_PLAN_WEIGHT_AFFINE_H
#define SHOAL_WORKER_PLAN_WEIGHT_AFFINE_H

#include "worker/plan/weight_layout.h"

/* Contracts as those of weight_source.h. */
enum ggml_type weight_affine_type(const struct weight_source *source, uint64_t rows,
                                  uint64_t columns);
void weight_affine_read(const struct weight_source *source, uint32_t columns,
                        struct weight_span span, uint8_t *out);

#endif
