/*
 * Finds ops and tensors of a plan for tests that change one of them. If there is none, the running
 * test fails.
 */
#ifndef SHOAL_TESTS_SUPPORT_PLAN_LOOKUP_H
#define SHOAL_TESTS_SUPPORT_PLAN_LOOKUP_H

#include "worker/plan/plan.h"

/* A copy of the first op of this stem. */
struct plan_op plan_lookup_op(const struct plan *plan, enum op_stem stem);
/* The first tensor of these rows and columns. */
plan_tensor_id plan_lookup_tensor(const struct plan *plan, enum plan_rows rows, uint32_t columns);

#endif
