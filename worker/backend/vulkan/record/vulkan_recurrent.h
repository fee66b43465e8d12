/*
 * Dispatches of the ops with recurrent state, and of those that only occur beside them.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_RECURRENT_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_RECURRENT_H

#include "worker/backend/vulkan/record/vulkan_recorder.h"

/* For the recorder: the op being recorded, its output in `forms`. */
void vulkan_recurrent_record_short_conv(struct vulkan_recorder *recorder, uint32_t forms);
void vulkan_recurrent_record_gated_delta(struct vulkan_recorder *recorder);
void vulkan_recurrent_record_head_norm_gate(struct vulkan_recorder *recorder, uint32_t forms);
void vulkan_recurrent_record_take_queries(struct vulkan_recorder *recorder, uint32_t forms);
void vulkan_recurrent_record_gate_heads(struct vulkan_recorder *recorder, uint32_t forms);

#endif
