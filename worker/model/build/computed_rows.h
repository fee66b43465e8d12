/*
 * Arithmetic of weights that are computed while a plan is built (plan_builder_computed()), which every start of a worker waits for.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_COMPUTED_ROWS_H
#define SHOAL_WORKER_MODEL_BUILD_COMPUTED_ROWS_H

#include <stdint.h>

/* The sum of a[i] * b[i] over i < count, always in the same order. */
float computed_rows_dot(const float *a, const float *b, uint32_t count);

#endif
