/*
 * Scores and sums over one block of quantized keys or values (worker/plan/kv_codec.h), for the
 * AVX2 attention. Every position of the block is computed; the caller's weights mask positions.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_ATTENTION_PACKED_AVX2_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_ATTENTION_PACKED_AVX2_H

#include "worker/backend/cpu/kernels/kernel_types.h"

struct attention_packed_queries {
    uint32_t count;                             /* 1..ATTENTION_QUERIES */
    const float *queries;                       /* [count, head_dim] */
    const float (*group_sums)[KV_SEGMENTS_MAX]; /* [count] */
};

/* Prepares a scaled query [head_dim]: rotates it and sums its elements by scale. */
void attention_packed_begin(const struct kv_side *keys, float *query,
                            float group_sums[KV_SEGMENTS_MAX]);
/* scores[m * ATTENTION_TILE + slot] = query m . key of the slot. */
void attention_packed_scores(const struct kv_side *keys, const uint8_t *side_memory,
                             const struct attention_packed_queries *queries, float *scores);
/* outs[m] [head_dim] += sum over slots of weights[m * ATTENTION_TILE + slot] * value, in the
 * rotated space where there is one. */
void attention_packed_values(const struct kv_side *values, const uint8_t *side_memory,
                             const float *weights, uint32_t count, float *const *outs);

#endif
