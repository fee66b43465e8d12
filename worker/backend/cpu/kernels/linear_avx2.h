/*
 * The linear kernels of the AVX2 tier, one per packed kind: linear_avx2_Q4_1() and so on.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_AVX2_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_AVX2_H

#include "worker/backend/cpu/kernels/kernel_types.h"

#define LINEAR_AVX2_PROTOTYPE(index, type, ...)                                                    \
    void linear_avx2_##type(const struct linear_tile *tile);
GGML_QUANT_LIST(LINEAR_AVX2_PROTOTYPE)
GGML_FLOAT_LIST(LINEAR_AVX2_PROTOTYPE)
#undef LINEAR_AVX2_PROTOTYPE

#endif
