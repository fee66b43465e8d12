/*
 * The cut-off of top_n_sigma: the maximum distance of a kept token from the largest logit, as a
 * multiple of the standard deviation of all logits above -infinity.
 *
 * Computed in f32 with additions and products only, in the order of a GPU workgroup, so that a
 * device can keep bit for bit the same tokens. The relative error of the cut-off is a few millionths.
 * Distances are clamped to 2^30.
 */
#ifndef SHOAL_WORKER_SAMPLE_LOGIT_SPREAD_H
#define SHOAL_WORKER_SAMPLE_LOGIT_SPREAD_H

#include <stdbool.h>

#include "worker/sample/logit_walk.h"

struct logit_cutoff {
    float scale; /* a distance d is kept unless d * d * scale > limit */
    float limit;
};

/* The cut-off for the walk's row, whose largest logit must be finite. */
struct logit_cutoff logit_spread_cutoff(const struct logit_walk *walk, float top_n_sigma);
bool logit_spread_keeps(const struct logit_cutoff *cutoff, float distance);

#endif
