/*
 * A step's q|k|v rows and a paged cache of quantized keys and values, and attention over what
 * kv_codec says the codes stand for, in double.
 *
 * Scales of keys and values differ by powers of two. Physical blocks are in an order of their own;
 * every place of the cache that no row of the step may see is NaN or the largest code, and blocks
 * before a sliding window are not in the table at all. Rows of prompts may lie in a span, whose
 * positions see each other.
 */
#ifndef SHOAL_TESTS_SUPPORT_VULKAN_CODES_SCENE_H
#define SHOAL_TESTS_SUPPORT_VULKAN_CODES_SCENE_H

#include "tests/support/test_random.h"
#include "tests/support/vulkan_trial.h"
#include "worker/backend/vulkan/device/vulkan_attention_push.h"
#include "worker/backend/vulkan/policy/vulkan_attention_policy.h"
#include "worker/plan/kv_codec.h"

#define CODES_SCENE_PARTS 8u

struct codes_scene_case {
    struct kv_quantization quantization;
    uint32_t head_dim, heads, kv_heads, window;
    float soft_cap;
    bool sinks;
    float query_size; /* queries are up to it: 1 makes scores of a few */
};

/* Rows of one sequence at consecutive positions, the last in the cache. */
struct codes_scene_part {
    uint32_t rows;
    uint32_t first_position;
    uint32_t span_first, span_end; /* positions, at most the part's end; equal: none */
};

struct codes_scene {
    struct vulkan_trial *trial;
    const struct codes_scene_case *c;
    struct kv_codec codec;
    struct vulkan_attention_shape shape;
    uint32_t rows;
    uint32_t part_count;
    struct codes_scene_part parts[CODES_SCENE_PARTS];
    uint32_t first_row[CODES_SCENE_PARTS];
    uint32_t first_block[CODES_SCENE_PARTS]; /* in the block table */

    /* Device memory, mapped. */
    const struct vulkan_buffer *qkv, *keys, *values, *tables, *kv_tables, *sinks;
    const struct vulkan_buffer *sequences; /* [part_count + 1], the last one empty */
    const struct vulkan_buffer *sights;    /* [rows] */
};

/* Buffers live until the trial is cleared; codes_scene_fini() frees the rest. */
void codes_scene_init(struct codes_scene *scene, struct vulkan_trial *trial,
                      const struct codes_scene_case *c, const struct codes_scene_part *parts,
                      uint32_t part_count);
void codes_scene_fini(struct codes_scene *scene);

struct vulkan_attention_shape codes_scene_shape(const struct codes_scene_case *c);

/* Runs the choice, over tiles where `tiles` is not NULL, and returns its output, which is f32
 * [rows, heads * head_dim]. Fails the test where a counter is left at something else than 0. */
const float *codes_scene_run(const struct codes_scene *scene,
                             const struct vulkan_attention_choice *choice,
                             const struct vulkan_buffer *tiles);

/* got [rows, heads * head_dim], of which sequences with several rows are looked at, as `tiles`, or
 * the others. Fails the test where a number is further off than `tolerance`, a part of the largest
 * mean magnitude of values that one of its head's comes from (their sum may be next to nothing);
 * returns the largest error. */
double codes_scene_compare(const struct codes_scene *scene, const float *got, bool tiles,
                           double tolerance);

/* "turboquant, keys 3, values 4 bits, heads 8/2 of 128", for people. */
const char *codes_scene_words(const struct codes_scene_case *c);

#endif
