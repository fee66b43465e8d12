/*
 * Dispatches of attention over the KV cache and over patches of images.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_ATTENTION_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_ATTENTION_H

#include "worker/backend/vulkan/record/vulkan_recorder.h"

/* A dispatch beside the linear op `index` that reads the keys and values of the next attention op
 * into the cache, if that pays. */
void vulkan_attention_record_ahead(struct vulkan_recorder *recorder, uint32_t index);

#endif
