/*
 * top_n_sigma's border: how far below the largest logit a token may lie, as a multiple of the
 * standard deviation of all logits above -infinity.
 *
 * Worked out in f32 with nothing but additions and products, in the order of a workgroup, so that a
 * device could keep the same tokens to the bit. Relative to the deviation the border is right
 * within a few millionths. Distances count up to 2^30.
 */
#ifndef SHOAL_WORKER_SAMPLE_LOGIT_SPREAD_H
#define SHOAL_WORKER_SAMPLE_LOGIT_SPREAD_H

#include <stdbool.h>

#include "worker/sample/logit_walk.h"

struct logit_border {
    float scale; /* a distance d is kept unless d * d * scale > limit */
    float limit;
};

/* Of the walk's row, whose largest logit is finite. */
struct logit_border logit_spread_border(const struct logit_walk *walk, float top_n_sigma);
bool logit_spread_keeps(const struct logit_border *border, float distance);

#endif
