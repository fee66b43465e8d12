/*
 * The linear kernels of the AVX-512 tier, one per packed kind: linear_avx512_Q4_1() and so on.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_AVX512_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_AVX512_H

#include "worker/backend/cpu/kernels/kernel_types.h"

#define LINEAR_AVX512_PROTOTYPE(index, type, ...)                                                  \
    void linear_avx512_##type(const struct linear_tile *tile);
GGML_QUANT_LIST(LINEAR_AVX512_PROTOTYPE)
GGML_FLOAT_LIST(LINEAR_AVX512_PROTOTYPE)
#undef LINEAR_AVX512_PROTOTYPE

#endif
