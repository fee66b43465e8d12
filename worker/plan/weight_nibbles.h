/*
 * Nibbles that select one of sixteen numbers, times a scale. Private to weight_source.c.
 *
 *   NVFP4   rows of nibbles, the low one first; FP4 numbers; an E4M3 scale per 16 columns, times or
 *           divided by the matrix's factor: value = number * (scale * factor). Becomes NVFP4.
 *   NVFP4_64  GGUF: blocks of 64 columns with four scales and 32 bytes, of which eight are the low and then the
 *           high nibbles of 16 columns; factors beside it. Becomes NVFP4, or F32 if a scale has its sign
 *           bit set, which has no meaning there.
 *   TABLE4  bitsandbytes: nibbles of the whole matrix, row after row, the high one first; numbers
 *           from a table in the checkpoint; a scale per `group` numbers, across the ends of rows.
 *           Becomes NF4_64 or FP4_64 if the table is theirs and scales change at multiples of 64 columns;
 *           otherwise floats of the stated type (scale_type), rounded.
 */
#ifndef SHOAL_WORKER_PLAN_WEIGHT_NIBBLES_H
#define SHOAL_WORKER_PLAN_WEIGHT_NIBBLES_H

#include "worker/plan/weight_layout.h"

/* Of both NVFP4s. */
enum ggml_type weight_nvfp4_type(const struct weight_source *source, uint64_t rows,
                                 uint64_t columns);
enum ggml_type weight_table4_type(const struct weight_source *source, uint64_t rows,
                                  uint64_t columns);
/* The contract of weight_source_read(), but the span of a TABLE4 as floats may begin and end anywhere. */
void weight_nibbles_read(const struct weight_source *source, uint32_t columns,
                         struct weight_span span, uint8_t *out);

#endif
