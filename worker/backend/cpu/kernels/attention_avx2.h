/*
 * The attention kernel of the AVX2 tier; contract in kernel_types.h.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_ATTENTION_AVX2_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_ATTENTION_AVX2_H

#include "worker/backend/cpu/kernels/kernel_types.h"

void attention_avx2(const struct attention_tile *tile);

#endif
