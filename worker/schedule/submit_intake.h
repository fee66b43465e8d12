/*
 * The first stage of a turn: takes the frontend's commands.
 */
#ifndef SHOAL_WORKER_SCHEDULE_SUBMIT_INTAKE_H
#define SHOAL_WORKER_SCHEDULE_SUBMIT_INTAKE_H

#include "worker/schedule/worker_engine.h"

/* Takes the available records, up to a limit per turn: queues or refuses requests, ends cancelled
 * ones at once and notes a drain. RESULT_CORRUPT if the ring is corrupt. */
enum result submit_intake_drain(struct worker_engine *engine) RESULT_CHECKED;

#endif
