/*
 * Decides which sequences must give their blocks back if blocks run out.
 */
#ifndef SHOAL_WORKER_SCHEDULE_PREEMPTION_POLICY_H
#define SHOAL_WORKER_SCHEDULE_PREEMPTION_POLICY_H

#include "worker/schedule/step_snapshot.h"

/*
 * Returns how many of the oldest candidates keep running so that the step can make progress: every
 * decoding survivor gets its next block and, if no survivor decodes, the oldest one that does not
 * end gets at least one row. The others, the youngest, are preempted.
 *
 * The blocks of the preempted count as free, although some are shared with survivors: the caller
 * calls again after preempting. Pure. At least 1 if there are candidates, because admission sized
 * every sequence to fit alone.
 */
uint32_t preemption_policy_survivors(const struct step_snapshot *snapshot);

#endif
