/*
 * The plan of steps that draw from every row in order, as decode steps do: there the gather before
 * the last layer's end would copy the whole tensor, so it is left out.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_WHOLE_PLAN_H
#define SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_WHOLE_PLAN_H

#include "worker/plan/plan.h"

/* *whole shares all arrays of `plan` except the ops, which the caller frees. Ops keep their index;
 * a gather_rows that is not needed has no input and no output. */
void vulkan_whole_plan_init(const struct plan *plan, struct plan *whole);

#endif
