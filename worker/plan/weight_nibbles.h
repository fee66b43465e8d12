/*
 * Nibbles that select one of sixteen numbers, times a scale, rounded to 16 bits. Private to
 * weight_source.c.
 *
 *   NVFP4   rows of nibbles, the low one first; FP4 numbers; an E4M3 scale per 16 columns, times or
 *           divided by the matrix's factor: value = number * (scale * factor)
 *   TABLE4  bitsandbytes: nibbles of the whole matrix, row after row, the high one first; numbers
 *           from a table in the checkpoint; a scale per `group` numbers, across the ends of rows
 */
#ifndef SHOAL_WORKER_PLAN_WEIGHT_NIBBLES_H
#define SHOAL_WORKER_PLAN_WEIGHT_NIBBLES_H

#include "worker/plan/weight_layout.h"

/* The contract of weight_source_read(), but `span` may begin and end anywhere. */
void weight_nibbles_read(const struct weight_source *source, uint32_t columns,
                         struct weight_span span, uint8_t *out);

#endif
