/*
 * Products of two runs of floats: for ops of the CPU without a kernel of their own, and for weights that are
 * computed while a plan is built (plan_builder_computed()), which every start of a worker waits for.
 */
#ifndef SHOAL_WORKER_PLAN_FLOAT_DOT_H
#define SHOAL_WORKER_PLAN_FLOAT_DOT_H

#include <stdint.h>

/* The sum of a[i] * b[i] over i < count, always in the same order. */
float float_dot(const float *a, const float *b, uint32_t count);

#endif
