/*
 * Dispatches of the ops that only vision towers have, for the recorder: the op being recorded, its
 * output in the forms that it is wanted in. Attention over patches is vulkan_attention.h's.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_TOWERS_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_TOWERS_H

#include "worker/backend/vulkan/record/vulkan_recorder.h"

void vulkan_towers_record_patch_rows(struct vulkan_recorder *recorder);
void vulkan_towers_record_patch_positions(struct vulkan_recorder *recorder);
void vulkan_towers_record_activate(struct vulkan_recorder *recorder);
void vulkan_towers_record_clip_columns(struct vulkan_recorder *recorder);
void vulkan_towers_record_join_rows(struct vulkan_recorder *recorder);
void vulkan_towers_record_pool_rows(struct vulkan_recorder *recorder);
void vulkan_towers_record_feature_write(struct vulkan_recorder *recorder);

/* Of the text's plan. */
void vulkan_towers_record_feature_add(struct vulkan_recorder *recorder);

#endif
