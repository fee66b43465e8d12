/*
 * What adapters add to the output of a linear op, after its product (program/vulkan_adapters.h).
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_ADAPTER_PART_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_ADAPTER_PART_H

#include "worker/backend/vulkan/record/vulkan_recorder.h"

/* Of op `index`, a linear or linear_add op whose product is recorded; records nothing if the step
 * has no adapters or none that changes the op. */
void vulkan_adapter_part_record(struct vulkan_recorder *recorder, uint32_t index);

#endif
