/*
 * What kernels need to know of a turboquant codec: levels, and how rows are turned into the rotated
 * space and out of it (shaders/kv_codes.glsl).
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_KV_TABLES_H
#define SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_KV_TABLES_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/plan/kv_codec.h"

/* Matrices T of heads whose size is no power of two: row x becomes x T. */
enum vulkan_kv_turn {
    VULKAN_KV_TURN_KEYS,   /* into the rotated space: of keys, and so of queries */
    VULKAN_KV_TURN_VALUES, /* of values */
    VULKAN_KV_TURN_BACK,   /* what was attended, out of the values' space */
    VULKAN_KV_TURNS
};

struct vulkan_kv_tables {
    float levels[KV_CODEBOOK_BITS_MAX][KV_CODEBOOK_LEVELS_MAX]; /*   0: of codes of 1 to 4 bits */
    float bounds[KV_CODEBOOK_BITS_MAX][KV_CODEBOOK_LEVELS_MAX]; /* 256 */
    float rotations[]; /* 512: signs [keys, values][head_dim] of a Hadamard transform, or matrices
                               [VULKAN_KV_TURNS][head_dim][head_dim] */
};
static_assert(offsetof(struct vulkan_kv_tables, bounds) == 256, "byte map");
static_assert(offsetof(struct vulkan_kv_tables, rotations) == 512, "byte map");

/* Of the tables for turboquant's heads of this size. */
uint64_t vulkan_kv_tables_bytes(uint32_t head_dim);

/* Fills all of them; levels and bounds of bits that none of the turboquant codec's codes have with
 * 0. */
void vulkan_kv_tables_fill(struct vulkan_kv_tables *tables, const struct kv_codec *codec);

#endif
