/*
 * Dispatches of the ops that compute each row of a text plan on its own. Each function records the
 * recorder's present op.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_ROW_OPS_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_ROW_OPS_H

#include "worker/backend/vulkan/record/vulkan_recorder.h"

void vulkan_row_ops_record_embed_rows(struct vulkan_recorder *recorder);
void vulkan_row_ops_record_rms_norm(struct vulkan_recorder *recorder);
void vulkan_row_ops_record_layer_norm(struct vulkan_recorder *recorder);
void vulkan_row_ops_record_rms_norm_add(struct vulkan_recorder *recorder);
void vulkan_row_ops_record_gate(struct vulkan_recorder *recorder);
void vulkan_row_ops_record_position_scale(struct vulkan_recorder *recorder);
void vulkan_row_ops_record_gather_rows(struct vulkan_recorder *recorder);
void vulkan_row_ops_record_soft_cap(struct vulkan_recorder *recorder);
void vulkan_row_ops_record_gate_with(struct vulkan_recorder *recorder);
void vulkan_row_ops_record_add_rows(struct vulkan_recorder *recorder);
void vulkan_row_ops_record_scale_columns(struct vulkan_recorder *recorder);

/* The op's output in the forms that its own kernel does not write, from f32. */
void vulkan_row_ops_record_missing_forms(struct vulkan_recorder *recorder);

#endif
