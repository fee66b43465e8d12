/*
 * One row of logits to one token, by the formulas of row_sampler.h.
 *
 * Three stages. Adjust: bias and penalties touch only the tokens that they name, in a copy of the
 * row that is made only when there are any. Greedy rows (temperature 0) then end with the largest
 * logit. The others descend from it (logit_walk.h) just as far as their filters and their random
 * number reach: top_k needs k candidates and no sum over the vocabulary; top_p needs that sum and
 * the few candidates that hold the mass; a row without filters stops where the draw falls.
 *
 * Sums run in f64 over f32 weights in a fixed order, so that the same row and parameters give the
 * same token everywhere. Refuses to keep state between rows: the scratch is only memory.
 */
#include "worker/sample/row_sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/sample/logit_walk.h"
#include "worker/sample/token_counts.h"

struct row_sampler {
    uint32_t vocab_tokens;
    float *adjusted; /* [vocab_tokens] */
    struct logit_walk walk;
};

struct row_sampler *row_sampler_create(uint32_t vocab_tokens)
{
    struct row_sampler *sampler = must_alloc(1, sizeof *sampler);
    sampler->vocab_tokens = vocab_tokens;
    sampler->adjusted = must_alloc(vocab_tokens, sizeof(float));
    logit_walk_init(&sampler->walk, vocab_tokens);
    return sampler;
}

void row_sampler_destroy(struct row_sampler *sampler)
{
    if (!sampler)
        return;
    logit_walk_fini(&sampler->walk);
    free(sampler->adjusted);
    free(sampler);
}

static bool penalties_on(const struct row_sampling *sampling)
{
    const struct sampling_params *params = sampling->params;
    return sampling->counts &&
           (params->repetition_penalty != 1.0f || params->presence_penalty != 0.0f ||
            params->frequency_penalty != 0.0f);
}

static float penalized(float logit, struct token_count count, const struct sampling_params *params)
{
    if (params->repetition_penalty != 1.0f)
        logit =
            logit > 0.0f ? logit / params->repetition_penalty : logit * params->repetition_penalty;
    if (count.generated > 0)
        logit -= params->presence_penalty + params->frequency_penalty * (float)count.generated;
    return logit;
}

/* The row after bias and penalties: `logits` itself when neither is on. */
static const float *adjust(struct row_sampler *sampler, const float *logits,
                           const struct row_sampling *sampling)
{
    if (sampling->logit_bias_count == 0 && !penalties_on(sampling))
        return logits;
    float *row = sampler->adjusted;
    memcpy(row, logits, sampler->vocab_tokens * sizeof *row);
    for (uint32_t i = 0; i < sampling->logit_bias_count; i++) {
        must(sampling->logit_bias[i].token < sampler->vocab_tokens);
        row[sampling->logit_bias[i].token] += sampling->logit_bias[i].bias;
    }
    if (penalties_on(sampling)) {
        uint32_t size = token_counts_size(sampling->counts);
        for (uint32_t i = 0; i < size; i++) {
            struct token_count count = token_counts_at(sampling->counts, i);
            must(count.token < sampler->vocab_tokens);
            row[count.token] = penalized(row[count.token], count, sampling->params);
        }
    }
    return row;
}

/* Begins the walk over the adjusted row; an infinite largest logit is brought into range first. */
static void begin(struct row_sampler *sampler, const float *row)
{
    logit_walk_begin(&sampler->walk, row);
    if (sampler->walk.largest != INFINITY)
        return;
    for (uint32_t token = 0; token < sampler->vocab_tokens; token++)
        sampler->adjusted[token] = row[token] == INFINITY ? FLT_MAX : row[token];
    logit_walk_begin(&sampler->walk, sampler->adjusted);
}

/* The first candidate whose cumulative weight exceeds `target`; the last one that weighs anything
 * when rounding keeps the sum below it. At most `count` candidates are looked at. */
static uint32_t pick(struct logit_walk *walk, uint32_t count, double target)
{
    double sum = 0.0;
    uint32_t token = 0;
    for (uint32_t rank = 0; rank < count; rank++) {
        const struct logit_candidate *candidate = logit_walk_candidate(walk, rank);
        if (!candidate || (candidate->weight == 0.0f && rank > 0))
            break;
        token = candidate->token;
        sum += (double)candidate->weight;
        if (sum > target)
            break;
    }
    return token;
}

/* Weight of the first `count` candidates. */
static double weigh(struct logit_walk *walk, uint32_t count)
{
    double sum = 0.0;
    for (uint32_t rank = 0; rank < count; rank++) {
        const struct logit_candidate *candidate = logit_walk_candidate(walk, rank);
        if (!candidate)
            break;
        sum += (double)candidate->weight;
    }
    return sum;
}

/* How many of the first `count` candidates top_p and min_p leave, at least one; *kept_weight is
 * their sum. `mass` is the weight of all that top_k left. */
static uint32_t filter(struct logit_walk *walk, const struct sampling_params *params,
                       uint32_t count, double mass, double *kept_weight)
{
    double sum = 0.0;
    uint32_t kept = 0;
    while (kept < count) {
        const struct logit_candidate *candidate = logit_walk_candidate(walk, kept);
        /* The largest token weighs 1, so min_p compares with the weight itself. */
        if (!candidate || (kept > 0 && candidate->weight < params->min_p))
            break;
        sum += (double)candidate->weight;
        kept++;
        if (params->top_p < 1.0f && sum >= (double)params->top_p * mass)
            break;
    }
    *kept_weight = sum;
    return kept;
}

static uint32_t draw(struct row_sampler *sampler, const struct row_sampling *sampling)
{
    const struct sampling_params *params = sampling->params;
    struct logit_walk *walk = &sampler->walk;
    logit_walk_descend(walk, params->temperature);
    double u = (double)uniform_draw(params->seed, sampling->position);

    uint32_t count = sampler->vocab_tokens;
    bool cut = params->top_k > 0 && params->top_k < count;
    if (cut)
        count = params->top_k;
    bool whole = !cut && params->top_p >= 1.0f && params->min_p <= 0.0f;
    double mass = 0.0;
    if (cut)
        mass = weigh(walk, count);
    else if (whole || params->top_p < 1.0f)
        mass = logit_walk_sum(walk, params->temperature);
    if (!whole)
        count = filter(walk, params, count, mass, &mass);
    return pick(walk, count, u * mass);
}

struct sampled_token row_sampler_draw(struct row_sampler *sampler, const float *logits,
                                      const struct row_sampling *sampling)
{
    struct sampled_token sampled = {0};
    begin(sampler, adjust(sampler, logits, sampling));
    if (sampler->walk.largest == -INFINITY) {
        sampled.logprob = sampling->wants_logprob ? -INFINITY : 0.0f;
        return sampled;
    }
    if (sampling->params->temperature > 0.0f)
        sampled.token = draw(sampler, sampling);
    else
        sampled.token = logit_walk_largest(&sampler->walk);
    if (sampling->wants_logprob) {
        double distance =
            (double)sampler->walk.logits[sampled.token] - (double)sampler->walk.largest;
        double logprob = distance - log(logit_walk_sum(&sampler->walk, 1.0f));
        sampled.logprob = logprob < 0.0 ? (float)logprob : 0.0f;
    }
    return sampled;
}
