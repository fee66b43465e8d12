/*
 * Vectors of a worker that pools (proto/pooling.h): from the rows of steps to events.
 */
#ifndef SHOAL_WORKER_SCHEDULE_VECTOR_PUBLISHER_H
#define SHOAL_WORKER_SCHEDULE_VECTOR_PUBLISHER_H

#include "worker/schedule/worker_engine.h"

/* Takes the vector of the token at `position`, [vector_columns]. Positions come in order, from 0 on if
 * pooling_reads_all(), otherwise only the last one. RESULT_OUT_OF_MEMORY; RESULT_CORRUPT if the model
 * gave a number that is not finite. */
enum result vector_publisher_take(struct worker_engine *engine, struct sequence *sequence,
                                  uint32_t position, const float *vector) RESULT_CHECKED;

#endif
