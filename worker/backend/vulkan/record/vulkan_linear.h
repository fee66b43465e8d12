/*
 * Dispatches of linear ops and of bias_add.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_LINEAR_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_LINEAR_H

#include "worker/backend/vulkan/program/vulkan_linear_way.h"
#include "worker/backend/vulkan/record/vulkan_recorder.h"

/* Dispatches of the op, its norm and gate included where `way` says so. `forms`: of the gate's
 * output. */
void vulkan_linear_record(struct vulkan_recorder *recorder, uint32_t index, uint32_t forms);

/* The recorder's present op, a bias_add that no linear op does. */
void vulkan_linear_record_bias_add(struct vulkan_recorder *recorder);

#endif
