/*
 * Stage one of a turn: what the frontend asks for.
 */
#ifndef SHOAL_WORKER_SCHEDULE_SUBMIT_INTAKE_H
#define SHOAL_WORKER_SCHEDULE_SUBMIT_INTAKE_H

#include "worker/schedule/worker_engine.h"

/* Takes the records that are there, at most a turn's worth: requests are queued or refused,
 * cancelled ones end at once, a drain is noted. RESULT_CORRUPT when the ring is. */
enum result submit_intake_drain(struct worker_engine *engine) RESULT_CHECKED;

#endif
