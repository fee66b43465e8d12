/*
 * Products of two runs of floats, for ops without a kernel of their own.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_OPS_CPU_DOT_H
#define SHOAL_WORKER_BACKEND_CPU_OPS_CPU_DOT_H

#include <stdint.h>

/* The sum of a[i] * b[i] over i < count, always in the same order. */
float cpu_dot(const float *a, const float *b, uint32_t count);

#endif
