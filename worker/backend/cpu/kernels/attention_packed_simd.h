/*
 * Scores and sums over one block of quantized keys or values (worker/plan/kv_codec.h), for
 * attention_simd.c. Every position of the block is computed; the caller's weights mask positions.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_ATTENTION_PACKED_SIMD_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_ATTENTION_PACKED_SIMD_H

#include "worker/backend/cpu/kernels/kernel_types.h"
#include "worker/backend/cpu/kernels/simd_floats.h"

/* Calls kernel(n, first, ...) for all of `count` queries, n = SIMD_QUERIES at a time and then the rest; n is a constant. */
#define ATTENTION_FOR_QUERIES(kernel, count, ...)                                                  \
    do {                                                                                           \
        uint32_t m = 0;                                                                            \
        for (; m + SIMD_QUERIES <= (count); m += SIMD_QUERIES)                                     \
            kernel(SIMD_QUERIES, m, __VA_ARGS__);                                                  \
        if (SIMD_QUERIES > 5 && (count)-m == 5)                                                    \
            kernel(5, m, __VA_ARGS__);                                                             \
        else if (SIMD_QUERIES > 4 && (count)-m == 4)                                               \
            kernel(4, m, __VA_ARGS__);                                                             \
        else if ((count)-m == 3)                                                                   \
            kernel(3, m, __VA_ARGS__);                                                             \
        else if ((count)-m == 2)                                                                   \
            kernel(2, m, __VA_ARGS__);                                                             \
        else if ((count)-m == 1)                                                                   \
            kernel(1, m, __VA_ARGS__);                                                             \
    } while (0)

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
