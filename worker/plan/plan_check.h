/*
 * Whether an op fits the tensors, weights, ropes and caches it names. Shapes and in-place rules are
 * those of worker/plan/op_list.h.
 */
#ifndef SHOAL_WORKER_PLAN_PLAN_CHECK_H
#define SHOAL_WORKER_PLAN_PLAN_CHECK_H

#include "proto/result.h"
#include "worker/plan/plan.h"

/* RESULT_INVALID names the op's number, its stem, its first weight and what does not fit. The
 * plan's config, kv, tensors and weights must be filled; its ops are not read. */
enum result plan_op_check(const struct plan *plan, const struct plan_op *op, uint32_t number,
                          struct error_text *error) RESULT_CHECKED;

#endif
