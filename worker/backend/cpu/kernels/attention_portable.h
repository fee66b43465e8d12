/*
 * The attention kernel of the portable tier; contract in kernel_types.h.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_ATTENTION_PORTABLE_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_ATTENTION_PORTABLE_H

#include "worker/backend/cpu/kernels/kernel_types.h"

void attention_portable(const struct attention_tile *tile);

#endif
