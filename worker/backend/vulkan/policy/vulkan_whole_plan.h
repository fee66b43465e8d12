/*
 * The plan of steps that draw from every row, in the rows' order, as steps of decodes do: what is
 * gathered for the last layer's end is then the whole tensor, and need not be copied.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_WHOLE_PLAN_H
#define SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_WHOLE_PLAN_H

#include "worker/plan/plan.h"

/* *whole is `plan`, whose arrays it shares but the ops: those are the caller's to free. Ops keep
 * their places; a gather_rows that is not needed has no input and no output. */
void vulkan_whole_plan_init(const struct plan *plan, struct plan *whole);

#endif
