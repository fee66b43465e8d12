/*
 * GGUF's i-quants and ternary types as rows of other types: a part of weight_source.
 *
 *   IQ3_XXS, IQ3_S, IQ1_S, IQ1_M   Q6_K, or F32 if a block's scale would not be exact in f16
 *   IQ2_XXS, IQ2_XS, IQ2_S         S8, or F32 if a scale is not exact in f16
 *   TQ1_0, TQ2_0                   Q4_0
 *
 * All are exact: the values are those of ggml's dequantizers. Spans are multiples of 256 columns.
 */
#ifndef SHOAL_WORKER_PLAN_WEIGHT_IQUANT_H
#define SHOAL_WORKER_PLAN_WEIGHT_IQUANT_H

#include <stdint.h>

#include "worker/plan/weight_layout.h"

#define WEIGHT_IQUANT_BLOCK 256u /* columns */

/* Reads the scale of every block. */
enum ggml_type weight_iquant_type(const struct weight_source *source, uint64_t rows,
                                  uint64_t columns);
void weight_iquant_read(const struct weight_source *source, uint32_t columns,
                        struct weight_span span, uint8_t *out);

#endif
