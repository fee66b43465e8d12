/*
 * The row kernels of the tiers above the portable one; contracts in cpu_kernels.h.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_ROW_SIMD_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_ROW_SIMD_H

#include "worker/backend/cpu/kernels/kernel_types.h"

void row_simd_quantize(const float *x, uint32_t columns, float outlier,
                       struct quantized_block *out);
void row_simd_rms_norm(const float *x, const float *weight, float offset, float epsilon,
                       const float *add, uint32_t columns, float *out);
void row_simd_layer_norm(const float *x, const float *weight, float offset, float epsilon,
                         uint32_t columns, float *out);
void row_simd_gate(enum gate_activation activation, const float *x, const float *up,
                   uint32_t columns, float *out);
void row_simd_soft_cap(const float *x, float scale, float cap, uint32_t columns, float *out);
void row_simd_to_f16(const float *x, uint32_t count, uint16_t *out);

#endif
