/*
 * The linear kernels of the AMX tier for quantized kinds: linear_amx_Q4_1() and so on. They use tile->scratch.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_AMX_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_AMX_H

#include "worker/backend/cpu/kernels/kernel_types.h"

#define LINEAR_AMX_PROTOTYPE(index, type, ...)                                                     \
    void linear_amx_##type(const struct linear_tile *tile);
GGML_QUANT_LIST(LINEAR_AMX_PROTOTYPE)
#undef LINEAR_AMX_PROTOTYPE

#endif
