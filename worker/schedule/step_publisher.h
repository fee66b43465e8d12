/*
 * Last stage of a turn: what the step computed becomes tokens, events and ends.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_PUBLISHER_H
#define SHOAL_WORKER_SCHEDULE_STEP_PUBLISHER_H

#include "worker/schedule/worker_engine.h"

/* Applies a step's results to those of its sequences that have not ended meanwhile and queues their
 * events. Returns the number of tokens generated. */
uint32_t step_publisher_apply(struct worker_engine *engine, const struct step_done *done);

#endif
