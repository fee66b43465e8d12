/*
 * Dispatches of norms, rotations and the KV write, before attention.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_HEADS_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_HEADS_H

#include "worker/backend/vulkan/device/vulkan_attention_push.h"
#include "worker/backend/vulkan/program/vulkan_attention_shape.h"
#include "worker/backend/vulkan/record/vulkan_recorder.h"

/* Whether the attention op after the run computes all of it: only for decodes. */
bool vulkan_heads_are_fused(const struct vulkan_recorder *recorder, uint32_t first, uint32_t count);
/* Weights of a head_norm; ones where it has none. */
uint64_t vulkan_heads_norm_weights(const struct vulkan_program *program,
                                   const struct plan_op *norm);

/* The fields that all dispatches of heads of a tensor share. */
struct vulkan_rope_kv_write_push vulkan_heads_push(const struct vulkan_recorder *recorder,
                                                   const struct plan_op *op);
/* `beside`: it does not depend on the dispatch before it. */
void vulkan_heads_dispatch(struct vulkan_recorder *recorder, const struct plan_op *op,
                           const struct vulkan_heads_task *task,
                           const struct vulkan_rope_kv_write_push *push, bool beside);

#endif
