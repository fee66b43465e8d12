/*
 * The linear kernels of the dotprod tier, one per quantized kind: linear_dotprod_Q4_1() and so on.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_DOTPROD_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_DOTPROD_H

#include "worker/backend/cpu/kernels/kernel_types.h"

#define LINEAR_DOTPROD_PROTOTYPE(index, type, ...)                                                 \
    void linear_dotprod_##type(const struct linear_tile *tile);
GGML_QUANT_LIST(LINEAR_DOTPROD_PROTOTYPE)
#undef LINEAR_DOTPROD_PROTOTYPE

#endif
