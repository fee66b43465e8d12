/*
 * The inner loops that exist once per instruction set, as one table of functions chosen at load.
 * The portable tier is the specification, in plain C; the others compute the same sums in the same
 * order, lane by lane, within a tolerance.
 *
 * Every kernel computes a row by the same sequence of operations whatever other rows the call
 * computes, so batches, chunks and thread counts do not change a bit of the result.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_CPU_KERNELS_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_CPU_KERNELS_H

#include <stdbool.h>

#include "worker/backend/cpu/kernels/kernel_types.h"
#include "worker/backend/cpu/weights/packed_weight.h"

struct cpu_kernels {
    enum cpu_tier tier;
    const char *name;
    bool arranges; /* linear[] uses linear_tile.scratch */
    void (*linear[PACKED_KIND_COUNT])(const struct linear_tile *tile);
    /* out [columns / 32]; columns is a multiple of 32. `outlier`: QUANTIZE_OUTLIER, or
     * QUANTIZE_ALL. Which blocks stand out depends on all the columns of a call: a row must always
     * be divided the same way. */
    void (*quantize)(const float *x, uint32_t columns, float outlier, struct quantized_block *out);
    /* out = add + x * rsqrt(mean(x^2) + epsilon) * (weight + offset); add may be NULL; out may be x
     * or add */
    void (*rms_norm)(const float *x, const float *weight, float offset, float epsilon,
                     const float *add, uint32_t columns, float *out);
    /* out = (x - mean(x)) * rsqrt(mean((x - mean(x))^2) + epsilon) * (weight + offset); out may be
     * x
     */
    void (*layer_norm)(const float *x, const float *weight, float offset, float epsilon,
                       uint32_t columns, float *out);
    /* out[c] = activation(x[c]) * up[c] */
    void (*gate)(enum gate_activation activation, const float *x, const float *up, uint32_t columns,
                 float *out);
    /* out[c] = cap * tanh(scale * x[c] / cap), scale * x[c] when cap is 0; out may be x */
    void (*soft_cap)(const float *x, float scale, float cap, uint32_t columns, float *out);
    /* Rounds to nearest even; clamps to +-65504, so that no cached number is infinite or NaN. */
    void (*to_f16)(const float *x, uint32_t count, uint16_t *out);
    void (*attention)(const struct attention_tile *tile);
};

/* The best tier this CPU runs, or the one asked for; NULL when the CPU lacks that one. */
const struct cpu_kernels *cpu_kernels_choose(enum cpu_tier tier);

/* Rows for which a product reads a weight once: their activations fill a part of a core's second-level
 * cache. A multiple of 4, of an arranging tier of 32. */
uint32_t linear_block_rows(const struct cpu_kernels *kernels, uint32_t columns);
/* Of linear_scratch.memory for so many rows; 0 if the tier does not arrange. */
size_t linear_scratch_bytes(const struct cpu_kernels *kernels, uint32_t rows, uint32_t columns);

/* Floats of attention_tile.scratch. */
size_t attention_scratch_floats(uint32_t head_dim, bool latent);

#endif
