/*
 * Rows of weights of every layout, for packers.
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_WEIGHT_ROWS_H
#define SHOAL_WORKER_BACKEND_HOST_WEIGHT_ROWS_H

#include "worker/plan/weight_source.h"

/* Writes rows [first, first + count) of a matrix of so many columns to `out`, one after the other, as
 * elements of the source's type. The source is not in place. */
void weight_rows_read(const struct weight_source *source, uint32_t columns, uint64_t first,
                      uint32_t count, uint8_t *out);

#endif
