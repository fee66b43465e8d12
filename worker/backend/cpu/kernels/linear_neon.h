/*
 * The linear kernels of the neon tier, one per packed kind: linear_neon_Q4_1() and so on. Those of float
 * kinds serve all tiers of AArch64.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_NEON_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_NEON_H

#include "worker/backend/cpu/kernels/kernel_types.h"

#define LINEAR_NEON_PROTOTYPE(index, type, ...)                                                    \
    void linear_neon_##type(const struct linear_tile *tile);
GGML_QUANT_LIST(LINEAR_NEON_PROTOTYPE)
GGML_FLOAT_LIST(LINEAR_NEON_PROTOTYPE)
#undef LINEAR_NEON_PROTOTYPE

#endif
