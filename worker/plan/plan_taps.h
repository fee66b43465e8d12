/*
 * Taps of a plan: copies of the residual between layers, side by side in one tensor of step rows that steps
 * hand over (struct plan, hidden_out). Drafters that read a model's inner states need them; a plan without
 * taps is not changed and costs nothing.
 */
#ifndef SHOAL_WORKER_PLAN_PLAN_TAPS_H
#define SHOAL_WORKER_PLAN_PLAN_TAPS_H

#include "proto/result.h"
#include "worker/plan/plan.h"

#define PLAN_TAPS_MAX 16u

/* Tap i is the residual after the first layers[i] layers, so 0 < layers[i] < the model's; hidden_out becomes
 * [step rows, count * hidden]. The plan keeps no hidden states yet. RESULT_UNSUPPORTED if the residual does not
 * live alone there; the plan is unchanged then. */
enum result plan_taps_add(struct plan *plan, const uint32_t *layers, uint32_t count,
                          struct error_text *error) RESULT_CHECKED;

#endif
