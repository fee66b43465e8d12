/*
 * Integer codes with integer zero points: weight = scale * (code - zero), one scale and one zero
 * point per row and group of columns. Private to weight_source.c.
 *
 * Codes and zero points lie in little-endian words of 32 bits, and the scales beside them:
 *
 *   PACKED  compressed-tensors, pack-quantized: codes along a row, zero points down a column,
 *           scales [rows][groups]
 *   AWQ     gemm: eight rows' codes of one column in a word, in the order of awq_places;
 *           words [columns][rows / 8], zero points [groups][rows / 8], scales [groups][rows]
 *   GPTQ    codes down a column of words, [columns * bits / 32][rows], zero points along a row,
 *           [groups][rows * bits / 32], scales [groups][rows]
 *
 * "Along" and "down" are streams of bits from the lowest bit up; codes of 3, 5, 6 and 7 bits cross
 * words.
 */
#ifndef SHOAL_WORKER_PLAN_WEIGHT_INTEGERS_H
#define SHOAL_WORKER_PLAN_WEIGHT_INTEGERS_H

#include "worker/plan/weight_layout.h"

/* Contracts as those of weight_source.h. Group numbers outside the matrix count as group 0. */
enum ggml_type weight_integers_type(const struct weight_source *source, uint64_t rows,
                                    uint64_t columns);
void weight_integers_read(const struct weight_source *source, uint32_t columns,
                          struct weight_span span, uint8_t *out);

#endif
