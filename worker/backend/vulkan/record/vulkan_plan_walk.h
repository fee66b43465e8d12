/*
 * Records the dispatches of one step: walks the plan once, with kernels chosen for the step's
 * shape.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_PLAN_WALK_H
#define SHOAL_WORKER_BACKEND_VULKAN_RECORD_VULKAN_PLAN_WALK_H

#include "worker/backend/vulkan/record/vulkan_recording.h"

/* Between vulkan_commands_begin() and _end(). */
enum result vulkan_plan_walk_run(const struct vulkan_recording *recording,
                                 struct error_text *error) RESULT_CHECKED;

#endif
