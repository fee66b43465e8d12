/*
 * Ops over streams.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_STREAMS_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_STREAMS_H

#include "worker/backend/vulkan/record/vulkan_recorder.h"

/* Any of them. */
void vulkan_streams_record(struct vulkan_recorder *recorder);

#endif
