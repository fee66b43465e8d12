/*
 * A temperature that follows from the row: high where the model is undecided, low where it is sure
 * (row_sampler.h, dynatemp).
 */
#ifndef SHOAL_WORKER_SAMPLE_DYNAMIC_TEMPERATURE_H
#define SHOAL_WORKER_SAMPLE_DYNAMIC_TEMPERATURE_H

#include "proto/sampling_params.h"
#include "worker/sample/logit_walk.h"

/* The temperature for the walk's row, whose largest logit is finite; 0: greedy. Begins a descent of
 * its own; the caller begins the next one. */
float dynamic_temperature(struct logit_walk *walk, const struct sampling_params *params);

#endif
