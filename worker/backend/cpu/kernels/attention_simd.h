/*
 * The attention kernel of the tiers above the portable one; contract in kernel_types.h.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_ATTENTION_SIMD_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_ATTENTION_SIMD_H

#include "worker/backend/cpu/kernels/kernel_types.h"

void attention_simd(const struct attention_tile *tile);

#endif
