/*
 * Eight floats in registers of the architecture that the worker is built for.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_SIMD_FLOATS_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_SIMD_FLOATS_H

#ifdef __x86_64__
#include "worker/backend/cpu/kernels/simd_avx2.h"
#else
#include "worker/backend/cpu/kernels/simd_neon.h"
#endif

#endif
