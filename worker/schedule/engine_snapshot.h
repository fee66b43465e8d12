/*
 * Copies the engine's state into the snapshots that the policies read.
 */
#ifndef SHOAL_WORKER_SCHEDULE_ENGINE_SNAPSHOT_H
#define SHOAL_WORKER_SCHEDULE_ENGINE_SNAPSHOT_H

#include "worker/schedule/admission_policy.h"
#include "worker/schedule/worker_engine.h"

/* Everything except wanted_blocks, which depend on the waiting sequence. */
struct admission_snapshot engine_snapshot_admission(const struct worker_engine *engine);
/* Sets wanted_blocks. `shared_blocks`: blocks of each full group that it will share with running
 * sequences. */
void engine_snapshot_want(const struct worker_engine *engine, const struct sequence *sequence,
                          uint32_t shared_blocks, struct admission_snapshot *snapshot);

/* The candidates are stored in the engine until the next snapshot; candidate i is running sequence
 * i. */
struct step_snapshot engine_snapshot_step(struct worker_engine *engine);

#endif
