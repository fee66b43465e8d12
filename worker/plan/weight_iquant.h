/*
 * GGUF's i-quants and ternary types as rows of other types: a part of weight_source.
 *
 *   IQ1_S, IQ1_M             N4_IQ1, or F32 if a scale, divided by 8, is not exact in f16
 *   IQ2_XXS, IQ2_XS, IQ2_S   N4_IQ2, the same
 *   IQ3_XXS                  N4_IQ3_XXS, or F32 if half a scale is not exact in f16
 *   IQ3_S                    N4_IQ3_S
 *   TQ1_0, TQ2_0             T2_128
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
