/*
 * Decides how many rows each sequence gets in the next step.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_POLICY_H
#define SHOAL_WORKER_SCHEDULE_STEP_POLICY_H

#include "worker/schedule/step_snapshot.h"

/*
 * Sets the rows of each candidate: 1 for all that decode; prompt chunks, oldest first, within what
 * is left of the step's tokens and of the free blocks; 0 for those that wait or end. Pure. The
 * snapshot contains only survivors (preemption_policy.h): all decodes fit. Returns the sum, > 0
 * unless no candidate can move.
 */
uint32_t step_policy_compose(const struct step_snapshot *snapshot, uint32_t *rows);

#endif
