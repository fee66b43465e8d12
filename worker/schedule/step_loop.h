/*
 * The worker's heart: drain submits and cancels -> admit -> plan -> build batch -> launch -> wait
 * for the oldest step under way -> publish, again and again, and sleep when there is nothing to do.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_LOOP_H
#define SHOAL_WORKER_SCHEDULE_STEP_LOOP_H

#include "worker/schedule/worker_engine.h"

enum step_outcome {
    STEP_WORKED,  /* a step was launched or finished */
    STEP_IDLE,    /* nothing to run, and no step under way */
    STEP_BLOCKED, /* events of earlier turns still wait for room in the event ring */
    STEP_DRAINED  /* a drain was asked for and everything is finished and told */
};

/* One turn; never sleeps. RESULT_CORRUPT: the frontend broke a ring. Otherwise the backend's error:
 * steps are lost and the worker cannot go on. */
enum result step_loop_turn(struct worker_engine *engine, enum step_outcome *outcome,
                           struct error_text *error) RESULT_CHECKED;

/* Turns until drained (RESULT_OK), the frontend is gone (RESULT_PEER_GONE) or a turn fails. */
enum result step_loop_run(struct worker_engine *engine, struct error_text *error) RESULT_CHECKED;

#endif
