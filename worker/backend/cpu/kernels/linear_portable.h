/*
 * The linear kernels of the portable tier, one per packed kind: linear_portable_Q4_1() and so on.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_PORTABLE_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_PORTABLE_H

#include "worker/backend/cpu/kernels/kernel_types.h"

#define LINEAR_PORTABLE_PROTOTYPE(index, type, ...)                                                \
    void linear_portable_##type(const struct linear_tile *tile);
GGML_QUANT_LIST(LINEAR_PORTABLE_PROTOTYPE)
GGML_FLOAT_LIST(LINEAR_PORTABLE_PROTOTYPE)
#undef LINEAR_PORTABLE_PROTOTYPE

#endif
