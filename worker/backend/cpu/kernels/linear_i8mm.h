/*
 * The linear kernels of the i8mm tier, one per quantized kind: linear_i8mm_Q4_1() and so on.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_I8MM_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_I8MM_H

#include "worker/backend/cpu/kernels/kernel_types.h"

#define LINEAR_I8MM_PROTOTYPE(index, type, ...)                                                    \
    void linear_i8mm_##type(const struct linear_tile *tile);
GGML_QUANT_LIST(LINEAR_I8MM_PROTOTYPE)
#undef LINEAR_I8MM_PROTOTYPE

#endif
