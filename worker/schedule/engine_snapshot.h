/*
 * The engine's state as the policies see it.
 */
#ifndef SHOAL_WORKER_SCHEDULE_ENGINE_SNAPSHOT_H
#define SHOAL_WORKER_SCHEDULE_ENGINE_SNAPSHOT_H

#include "worker/schedule/admission_policy.h"
#include "worker/schedule/worker_engine.h"

/* All but wanted_blocks, which belong to the sequence that asks to begin. */
struct admission_snapshot engine_snapshot_admission(const struct worker_engine *engine);
/* `shared_blocks` of each full group it will share with sequences that run. */
void engine_snapshot_want(const struct worker_engine *engine, const struct sequence *sequence,
                          uint32_t shared_blocks, struct admission_snapshot *snapshot);

/* Its candidates lie in the engine until the next one is taken; candidate i is running sequence i.
 */
struct step_snapshot engine_snapshot_step(struct worker_engine *engine);

#endif
