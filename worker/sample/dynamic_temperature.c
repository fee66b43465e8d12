/*
 * The entropy comes from the integer sums of the row (logit_walk_sums()), logarithms from
 * fixed_weight_log2() and the power from logit_walk_exp(), so the same row gives the same
 * temperature on every machine.
 */
#include "worker/sample/dynamic_temperature.h"

#include <math.h>

#include "worker/sample/fixed_weight.h"

#define LN_2       0.6931471805599453
#define LOG2_UNIT  0x1p-24 /* of fixed_weight_log2() and fixed_weight_mean() */
#define SHARE_UNIT 0x1p62  /* a share of 1 as an integer */

static double ln_of(uint64_t value)
{
    return (double)fixed_weight_log2(value) * LOG2_UNIT * LN_2;
}

/* share ^ exponent, for a share in [0, 1]. */
static float power_of(double share, float exponent)
{
    uint64_t units = (uint64_t)(share * SHARE_UNIT);
    if (exponent <= 0.0f || share >= 1.0)
        return 1.0f;
    if (units == 0)
        return 0.0f;
    return logit_walk_exp((float)((double)exponent * (ln_of(units) - 62.0 * LN_2)));
}

float dynamic_temperature(struct logit_walk *walk, const struct sampling_params *params)
{
    uint32_t count = logit_walk_finite(walk);
    if (count <= 1)
        return params->temperature;
    logit_walk_descend(walk, 1.0f);
    struct logit_sums sums = logit_walk_sums(walk);
    double mean = (double)fixed_weight_mean(sums.entropy, sums.weight) * LOG2_UNIT;
    double entropy = mean + ln_of(sums.weight) - FIXED_WEIGHT_BITS * LN_2;
    double share = fmin(fmax(entropy / ln_of(count), 0.0), 1.0);
    float low = fmaxf(0.0f, params->temperature - params->dynatemp_range);
    float high = params->temperature + params->dynatemp_range;
    return low + (high - low) * power_of(share, params->dynatemp_exponent);
}
