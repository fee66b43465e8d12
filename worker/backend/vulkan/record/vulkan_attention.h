/*
 * Dispatches of what happens to a row's queries, keys and values.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_ATTENTION_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_ATTENTION_H

#include "worker/backend/vulkan/record/vulkan_recorder.h"

/* The head_norm, rope or kv_write op `index`: alone, or the whole run that it begins. What an
 * earlier op of its run or the attention behind it does is not recorded. */
void vulkan_attention_record_heads(struct vulkan_recorder *recorder, uint32_t index);

/* Keys and values that the attention behind the linear op `index` will read, read beside it where
 * that helps. */
void vulkan_attention_record_ahead(struct vulkan_recorder *recorder, uint32_t index);

/* The attention op `index`; its output in `forms`. */
void vulkan_attention_record(struct vulkan_recorder *recorder, uint32_t index, uint32_t forms);

/* Forms of its output that the op `index` can write. */
uint32_t vulkan_attention_forms(const struct vulkan_program *program, uint32_t index);

/* Rows of a sequence that one tile holds. */
uint32_t vulkan_attention_tile_rows(const struct vulkan_program *program);

/* Largest that any layer and number of rows needs. */
struct vulkan_attention_scratch
vulkan_attention_scratch_bytes(const struct vulkan_program *program);

#endif
