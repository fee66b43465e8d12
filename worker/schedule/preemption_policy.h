/*
 * Who must give its blocks back when they run out?
 */
#ifndef SHOAL_WORKER_SCHEDULE_PREEMPTION_POLICY_H
#define SHOAL_WORKER_SCHEDULE_PREEMPTION_POLICY_H

#include "worker/schedule/step_snapshot.h"

/*
 * How many of the oldest candidates keep running so that the step can make progress: every decoding
 * survivor gets its next block and, when no survivor decodes, the oldest that does not end gets at
 * least one row. The others, the youngest, are preempted; their blocks count as free, which those
 * that survivors share are not: ask again when it is done. Pure. At least 1 when there are
 * candidates: admission sized every sequence so that it fits alone.
 */
uint32_t preemption_policy_survivors(const struct step_snapshot *snapshot);

#endif
