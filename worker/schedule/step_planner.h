/*
 * Builds the next step: applies the decisions of admission_policy.h, preemption_policy.h and
 * step_policy.h.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_PLANNER_H
#define SHOAL_WORKER_SCHEDULE_STEP_PLANNER_H

#include "worker/schedule/worker_engine.h"

/* Admits waiting sequences while the policy accepts the head of the queue. */
void step_planner_admit(struct worker_engine *engine);

/* Whether a running sequence needs its unread token on the host, so that no step can be planned
 * before the one under way is read. */
bool step_planner_must_read(const struct worker_engine *engine);

/* Preempts, composes and builds the next step into an empty `builder`. Leaves it empty if there is
 * nothing to run, or if a sequence must be preempted while a step is under way. *prompt_rows:
 * the number of prompt rows. Errors: those of a draft model's backend. */
enum result step_planner_plan(struct worker_engine *engine, struct step_batch_builder *builder,
                              uint32_t *prompt_rows, struct error_text *error) RESULT_CHECKED;

#endif
