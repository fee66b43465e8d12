/*
 * The worker's main loop. A turn takes submits and cancels, admits sequences, plans, builds and
 * launches a step, waits for the oldest step under way and publishes its results. The loop sleeps
 * when there is nothing to do.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_LOOP_H
#define SHOAL_WORKER_SCHEDULE_STEP_LOOP_H

#include "worker/schedule/worker_engine.h"

enum step_outcome {
    STEP_WORKED,  /* a step was launched or finished */
    STEP_IDLE,    /* nothing to run and no step under way */
    STEP_BLOCKED, /* events of earlier turns wait for room in the event ring */
    STEP_DRAINED  /* a drain was requested, and everything is finished and published */
};

/* Runs one turn; never sleeps. RESULT_CORRUPT: a ring is corrupt. Other errors are the backend's:
 * steps are lost and the worker must exit. */
enum result step_loop_turn(struct worker_engine *engine, enum step_outcome *outcome,
                           struct error_text *error) RESULT_CHECKED;

/* Runs turns until drained (RESULT_OK), the frontend has exited (RESULT_PEER_GONE) or a turn fails.
 */
enum result step_loop_run(struct worker_engine *engine, struct error_text *error) RESULT_CHECKED;

#endif
