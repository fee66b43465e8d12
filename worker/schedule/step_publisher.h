/*
 * Last stage of a turn: what the step computed becomes tokens, events and ends.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_PUBLISHER_H
#define SHOAL_WORKER_SCHEDULE_STEP_PUBLISHER_H

#include "worker/schedule/worker_engine.h"

/* Applies engine->results to the sequences of the builder's batch and queues their events. Returns
 * the number of tokens generated. `step_time_us`: how long the step took. */
uint32_t step_publisher_apply(struct worker_engine *engine, uint64_t step_time_us);

#endif
