/*
 * Tables of a turboquant codec for kernels: levels, and the transforms of rows into the rotated
 * space and back (shaders/kv_codes.glsl).
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_KV_TABLES_H
#define SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_KV_TABLES_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/plan/kv_codec.h"

/* Matrices T of heads whose size is not a power of two: row x becomes x T. */
enum vulkan_kv_turn {
    VULKAN_KV_TURN_KEYS,   /* into the rotated space: of keys, and so of queries */
    VULKAN_KV_TURN_VALUES, /* of values */
    VULKAN_KV_TURN_BACK,   /* attention outputs, out of the values' space */
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

/* Bytes of the tables for turboquant heads of this size. */
uint64_t vulkan_kv_tables_bytes(uint32_t head_dim);

/* Fills all tables; levels and bounds for numbers of bits that no code of the codec has are 0. */
void vulkan_kv_tables_fill(struct vulkan_kv_tables *tables, const struct kv_codec *codec);

#endif
