/*
 * The last stage of a turn: a step's results become tokens, events and ends.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_PUBLISHER_H
#define SHOAL_WORKER_SCHEDULE_STEP_PUBLISHER_H

#include "worker/schedule/worker_engine.h"

/* Applies a step's results to its sequences that have not ended in the meantime, and queues their
 * events. Returns the number of generated tokens. */
uint32_t step_publisher_apply(struct worker_engine *engine, const struct step_done *done);

#endif
