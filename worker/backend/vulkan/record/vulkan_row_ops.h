/*
 * Dispatches of the ops that compute each row of a text plan on its own. Each function records the
 * recorder's present op.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_ROW_OPS_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_ROW_OPS_H

#include "worker/backend/vulkan/record/vulkan_recorder.h"

/* The op's output in the forms that its own kernel does not write, from f32. */
void vulkan_row_ops_record_missing_forms(struct vulkan_recorder *recorder);

#endif
