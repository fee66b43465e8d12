/*
 * What the next step is made of: the policies' decisions (admission_policy.h, preemption_policy.h,
 * step_policy.h), applied.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_PLANNER_H
#define SHOAL_WORKER_SCHEDULE_STEP_PLANNER_H

#include "worker/schedule/worker_engine.h"

/* Lets waiting sequences begin while the policy admits the head of the queue. */
void step_planner_admit(struct worker_engine *engine);

/* Whether a sequence that goes on needs its unread token on the host: no step can be planned before
 * the one under way is read. */
bool step_planner_must_read(const struct worker_engine *engine);

/* Preempts, composes and builds the next step into an empty `builder`. Leaves it empty when there
 * is nothing to run, or somebody must be preempted while a step is under way. Returns its prompt
 * rows. */
uint32_t step_planner_plan(struct worker_engine *engine, struct step_batch_builder *builder);

#endif
