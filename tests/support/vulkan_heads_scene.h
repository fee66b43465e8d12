/*
 * A step's q|k|v rows, a paged cache with their pasts, and what norms, rotation and attention
 * should make of them, in double.
 *
 * Physical blocks are in random order. Every place of the cache that no query of the step may see
 * is NaN, blocks before a sliding window are not in the table at all, and a padding sequence
 * follows the real ones, so a kernel that reads where it should not gives NaN or dies.
 */
#ifndef SHOAL_TESTS_SUPPORT_VULKAN_HEADS_SCENE_H
#define SHOAL_TESTS_SUPPORT_VULKAN_HEADS_SCENE_H

#include "tests/support/test_random.h"
#include "tests/support/vulkan_trial.h"
#include "worker/backend/vulkan/device/vulkan_attention_push.h"
#include "worker/backend/vulkan/policy/vulkan_attention_policy.h"

#define HEADS_SCENE_PARTS 8u

/* Rows of one sequence at consecutive positions. */
struct heads_scene_part {
    uint32_t rows;
    uint32_t first_position;
};

/* What is normed before rotation: values without weights. */
enum heads_scene_norm { HEADS_SCENE_PLAIN, HEADS_SCENE_NORM, HEADS_SCENE_NORM_VALUES };

struct heads_scene {
    struct vulkan_trial *trial;
    struct vulkan_attention_shape shape;
    enum heads_scene_norm norm;
    uint32_t rows;
    uint32_t part_count;
    struct heads_scene_part parts[HEADS_SCENE_PARTS];
    uint32_t blocks;
    const uint32_t *tables[HEADS_SCENE_PARTS]; /* block table of each part */

    /* Device memory, mapped. */
    const struct vulkan_buffer *qkv, *frequencies, *query_norm, *key_norm;
    const struct vulkan_buffer *keys, *values, *step_rows, *sequences, *block_tables;

    /* Expected, each [rows, heads of its sort * head_dim]. */
    double *row_queries;
    double *row_keys;
    double *row_values;
    /* Of each part [first_position, kv_heads * head_dim]. */
    double *past_keys[HEADS_SCENE_PARTS];
    double *past_values[HEADS_SCENE_PARTS];
};

/* Buffers live until the trial is cleared; heads_scene_destroy() frees the rest. The cache holds
 * the pasts, not the rows' own keys and values. */
struct heads_scene *heads_scene_create(struct vulkan_trial *trial, struct test_random *random,
                                       const struct vulkan_attention_shape *shape,
                                       enum heads_scene_norm norm,
                                       const struct heads_scene_part *parts, uint32_t part_count);
void heads_scene_destroy(struct heads_scene *scene);

/* Puts the rows' own keys and values into the cache, and rotated queries into qkv, as
 * rope_kv_write should. */
void heads_scene_write_rows(struct heads_scene *scene);
/* Fails the test unless that is how things are, and the rest of the cache as it was. */
void heads_scene_check_written(const struct heads_scene *scene, bool queries_in_place);

/* The sequence of a row, and its position there. */
uint32_t heads_scene_part_of(const struct heads_scene *scene, uint32_t row);
uint32_t heads_scene_position(const struct heads_scene *scene, uint32_t row);
/* out: [heads * head_dim] */
void heads_scene_attend(const struct heads_scene *scene, uint32_t row, double *out);

/* Everything but items, partials, counters and outputs. */
struct vulkan_attention_rows_push heads_scene_attention_push(const struct heads_scene *scene);
struct vulkan_rope_kv_write_push heads_scene_heads_push(const struct heads_scene *scene);

#define HEADS_SCENE_EPSILON       1e-6f
#define HEADS_SCENE_WEIGHT_OFFSET 0.5f

#endif
