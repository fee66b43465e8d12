/*
 * What attention of a plan needs: the run of ops from q|k|v to the KV cache, where and how a layer
 * keeps keys and values, the shape of each attention op, and scratch memory for all of them.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_ATTENTION_SHAPE_H
#define SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_ATTENTION_SHAPE_H

#include "worker/backend/vulkan/policy/vulkan_attention_policy.h"
#include "worker/backend/vulkan/program/vulkan_program.h"

/* The two forms in which a layer may keep positions. */
enum vulkan_kv_form {
    VULKAN_KV_FORM_USUAL,  /* all of them */
    VULKAN_KV_FORM_OPENING /* those before --quantized-kv-start, in full precision */
};

/* Where and how a layer stores one form. */
struct vulkan_kv_store {
    uint32_t group; /* KV_GROUP_NONE: the layer has no such form */
    const struct vulkan_kv_layer *kv;
    struct vulkan_kv_codes codes;
};

/* The ops of a run, by what they do. */
struct vulkan_heads_run {
    const struct plan_op *query_norm, *key_norm, *value_norm;
    const struct plan_op *query_rope, *key_rope;
    const struct plan_op *write;
    bool usual;
};

struct vulkan_kv_store vulkan_kv_store_of(const struct vulkan_program *program, uint32_t layer,
                                          enum vulkan_kv_form form);
/* Whether the layer has the form VULKAN_KV_FORM_OPENING. */
bool vulkan_kv_has_opening(const struct vulkan_program *program, uint32_t layer);

/* The `count` ops from `first` on, the last of which is a kv_write. */
struct vulkan_heads_run vulkan_heads_run_read(const struct plan *plan, uint32_t first,
                                              uint32_t count);
/* The run of heads right before the attention op, or a count of 0. */
uint32_t vulkan_heads_run_before(const struct vulkan_program *program, uint32_t index,
                                 uint32_t *first);

/* Of the attention or patch_attention op `index`, over the positions kept in `form`. */
struct vulkan_attention_shape vulkan_attention_shape_of(const struct vulkan_program *program,
                                                        uint32_t index, enum vulkan_kv_form form);
/* Forms of its output that the op `index` can write. */
uint32_t vulkan_attention_shape_forms(const struct vulkan_program *program, uint32_t index);

/* Rows of a sequence that one tile holds. */
uint32_t vulkan_attention_shape_tile_rows(const struct vulkan_program *program);

/* The maximum over all layers and numbers of rows. */
struct vulkan_attention_scratch
vulkan_attention_shape_scratch_bytes(const struct vulkan_program *program);

#endif
