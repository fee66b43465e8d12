/*
 * Frequencies in double precision, rounded once at the end, so that both formats of a checkpoint
 * and every backend start from the same numbers.
 *
 * Every kind begins with the plain frequencies base^(-2i / dims) and changes some of them; yarn and
 * longrope also scale cosines and sines, which makes attention sharper in long contexts. Inputs are
 * not checked here: the readers of checkpoints check them key by key.
 */
#include "worker/model/checkpoint/rope_scaling.h"

#include <math.h>

#include "proto/must.h"

#define TWO_PI 6.283185307179586476925286766559

static double plain_frequency(double base, uint32_t pair, uint32_t dims)
{
    return pow(base, -2.0 * pair / dims);
}

/* Llama 3.1: divides the frequency of long waves by the factor, keeps short ones and blends those
 * in between. */
static double llama3_frequency(const struct rope_scaling *s, double plain)
{
    double low = (double)s->low_frequency_factor, high = (double)s->high_frequency_factor;
    double waves = s->original_tokens * plain / TWO_PI; /* within the original context */
    double kept = (waves - low) / (high - low);
    kept = kept < 0 ? 0 : kept > 1 ? 1 : kept;
    return plain * (kept + (1 - kept) / (double)s->factor);
}

/* The pair number, as a fraction, whose wave turns `rotations` times within the original context.
 */
static double yarn_bound(const struct rope_scaling *s, double rotations)
{
    return s->dims * log(s->original_tokens / (rotations * TWO_PI)) / (2 * log((double)s->base));
}

/* YaRN: like llama3, but blended by the pair's number. */
static double yarn_frequency(const struct rope_scaling *s, uint32_t pair, double plain)
{
    double low = yarn_bound(s, (double)s->beta_fast), high = yarn_bound(s, (double)s->beta_slow);
    if (!s->fractional_bounds) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > s->dims - 1 ? s->dims - 1 : high;
    if (fabs(high - low) <= 0)
        high += 0.001;
    double slowed = (pair - low) / (high - low);
    slowed = slowed < 0 ? 0 : slowed > 1 ? 1 : slowed;
    return plain * (1 - slowed) + plain / (double)s->factor * slowed;
}

static double yarn_scale(double factor, double mscale)
{
    return factor <= 1 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

/* Enlarges the base so that the slowest wave slows down by the growth of the context. */
static double dynamic_base(const struct rope_scaling *s)
{
    double length = s->context_tokens > s->original_tokens ? s->context_tokens : s->original_tokens;
    double factor = (double)s->factor, dims = s->dims;
    double stretched = factor * length / s->original_tokens - (factor - 1);
    return (double)s->base * pow(stretched, dims / (dims - 2));
}

static double scaled_frequency(const struct rope_scaling *s, uint32_t pair)
{
    double plain = plain_frequency((double)s->base, pair, s->dims);
    switch (s->kind) {
    case ROPE_KIND_LINEAR: return plain / (double)s->factor;
    case ROPE_KIND_LLAMA3: return llama3_frequency(s, plain);
    case ROPE_KIND_YARN: return yarn_frequency(s, pair, plain);
    case ROPE_KIND_LONGROPE: return plain / (double)s->divisors[pair];
    case ROPE_KIND_DYNAMIC: return plain_frequency(dynamic_base(s), pair, s->dims);
    case ROPE_KIND_PROPORTIONAL: return pair < s->rotated_pairs ? plain / (double)s->factor : 0.0;
    case ROPE_KIND_PLAIN: break;
    }
    return plain;
}

static double kind_magnitude(const struct rope_scaling *s)
{
    double factor = (double)s->factor, mscale = (double)s->mscale, all = (double)s->mscale_all;
    if (s->kind == ROPE_KIND_YARN)
        return fabs(mscale) > 0 && fabs(all) > 0
                   ? yarn_scale(factor, mscale) / yarn_scale(factor, all)
                   : yarn_scale(factor, 1);
    if (s->kind == ROPE_KIND_LONGROPE && factor > 1)
        return sqrt(1 + log(factor) / log(s->original_tokens));
    return 1.0;
}

bool rope_scaling_is_long(const struct rope_scaling *scaling)
{
    return scaling->context_tokens > scaling->original_tokens;
}

void rope_scaling_apply(const struct rope_scaling *scaling, struct rope_config *rope)
{
    must(scaling->dims >= 2 && scaling->dims % 2 == 0 && scaling->dims <= ROPE_DIMS_MAX);
    rope->dims = scaling->dims;
    rope->magnitude =
        scaling->magnitude > 0.0f ? scaling->magnitude : (float)kind_magnitude(scaling);
    for (uint32_t pair = 0; pair < scaling->dims / 2; pair++)
        rope->inverse_frequency[pair] = (float)scaled_frequency(scaling, pair);
}

void rope_scaling_assign_axes(const uint32_t sections[3], bool in_turn, struct rope_config *rope)
{
    for (uint32_t i = 0; i < rope->dims / 2; i++) {
        uint32_t section = i < sections[0] ? 0 : i < sections[0] + sections[1] ? 1 : 2;
        uint32_t turn = i < 3 * sections[i % 3] ? i % 3 : 0;
        rope->axis[i] = (uint8_t)(in_turn ? turn : section);
    }
}
