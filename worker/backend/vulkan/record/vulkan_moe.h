/*
 * The dispatches of moe_route, moe_linear, moe_gate and moe_combine.
 *
 * Where a kernel needs a step's pairs of row and expert sorted by expert, that is done once for
 * each route, before its first moe_linear.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_MOE_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_MOE_H

#include "worker/backend/vulkan/record/vulkan_recorder.h"

/* Each records the recorder's present op. */
void vulkan_moe_record_route(struct vulkan_recorder *recorder);
void vulkan_moe_record_linear(struct vulkan_recorder *recorder);
void vulkan_moe_record_gate(struct vulkan_recorder *recorder);
void vulkan_moe_record_combine(struct vulkan_recorder *recorder);

#endif
