/*
 * One row of logits to one token, by the formulas of row_sampler.h.
 *
 * Three stages. Adjust: bias, bars and penalties touch only the tokens that they name, in a copy of
 * the row that is made only when there are any; top_n_sigma takes what lies too far below the
 * largest out of such a copy. Greedy rows (temperature 0) then end with the largest logit. The
 * others descend from it (logit_walk.h) just as far as their filters and their random number reach:
 * top_k needs k candidates and no sum over the vocabulary; top_p needs that sum and the few
 * candidates that hold the mass; a row without filters stops where the draw falls.
 *
 * Every filter leaves a run of the descending order, so what is kept is two ranks. typical_p too:
 * -log p grows along the order, so the distance from the entropy falls and then grows again, and
 * what is near it are neighbours. With w the weights, -log p - H is (mean of log w) - log w, so no
 * logarithm is taken.
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

bool row_sampling_has_penalties(const struct row_sampling *sampling)
{
    const struct sampling_params *params = sampling->params;
    return sampling->counts &&
           (params->repetition_penalty != 1.0f || params->presence_penalty != 0.0f ||
            params->frequency_penalty != 0.0f);
}

static float penalized(float logit, struct token_count count, const struct sampling_params *params)
{
    if (count.repetition > 0 && params->repetition_penalty != 1.0f)
        logit =
            logit > 0.0f ? logit / params->repetition_penalty : logit * params->repetition_penalty;
    if (count.presence > 0 || count.frequency > 0)
        logit -= (count.presence > 0 ? params->presence_penalty : 0.0f) +
                 params->frequency_penalty * (float)count.frequency;
    return logit;
}

static void penalize(const struct row_sampler *sampler, const struct row_sampling *sampling,
                     float *row)
{
    uint32_t size = token_counts_size(sampling->counts);
    for (uint32_t i = 0; i < size; i++) {
        struct token_count count = token_counts_at(sampling->counts, i);
        must(count.token < sampler->vocab_tokens);
        row[count.token] = penalized(row[count.token], count, sampling->params);
    }
}

/* The row after bias, bars and penalties: `logits` itself when there are none. */
static const float *adjust(struct row_sampler *sampler, const float *logits,
                           const struct row_sampling *sampling)
{
    if (sampling->logit_bias_count == 0 && sampling->barred_count == 0 &&
        !row_sampling_has_penalties(sampling))
        return logits;
    float *row = sampler->adjusted;
    memcpy(row, logits, sampler->vocab_tokens * sizeof *row);
    for (uint32_t i = 0; i < sampling->logit_bias_count; i++) {
        must(sampling->logit_bias[i].token < sampler->vocab_tokens);
        row[sampling->logit_bias[i].token] += sampling->logit_bias[i].bias;
    }
    for (uint32_t i = 0; i < sampling->barred_count; i++) {
        must(sampling->barred[i] < sampler->vocab_tokens);
        row[sampling->barred[i]] = -INFINITY;
    }
    if (row_sampling_has_penalties(sampling))
        penalize(sampler, sampling, row);
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

/* --- top_n_sigma --- */

/* Standard deviation of the logits above -infinity, in a fixed order. */
static double deviation(const float *logits, uint32_t count)
{
    double sum = 0.0;
    uint32_t finite = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (logits[i] > -INFINITY) { /* false for NaN */
            sum += (double)logits[i];
            finite++;
        }
    }
    double mean = sum / finite;
    double squares = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        double distance = (double)logits[i] - mean;
        if (logits[i] > -INFINITY)
            squares += distance * distance;
    }
    return sqrt(squares / finite);
}

/* Takes what top_n_sigma does not keep out of the walk's row; the largest is finite and stays. */
static void drop_below_sigma(struct row_sampler *sampler, float top_n_sigma)
{
    const float *logits = sampler->walk.logits;
    double lowest = (double)sampler->walk.largest -
                    (double)top_n_sigma * deviation(logits, sampler->vocab_tokens);
    for (uint32_t token = 0; token < sampler->vocab_tokens; token++)
        sampler->adjusted[token] = (double)logits[token] >= lowest ? logits[token] : -INFINITY;
    logit_walk_begin(&sampler->walk, sampler->adjusted);
}

/* --- the draw --- */

/* Ranks from `first` to before `end`; weight: their sum. */
struct run {
    uint32_t first;
    uint32_t end;
    double weight;
};

/* The candidate of that rank, or NULL from where on tokens weigh nothing. */
static const struct logit_candidate *candidate_at(struct logit_walk *walk, uint32_t rank)
{
    const struct logit_candidate *candidate = logit_walk_candidate(walk, rank);
    return candidate && (candidate->weight > 0.0f || rank == 0) ? candidate : NULL;
}

/* The first candidate whose cumulative weight exceeds `target`; the last one that weighs anything
 * when rounding keeps the sum below it. */
static uint32_t pick(struct logit_walk *walk, struct run run, double target)
{
    double sum = 0.0;
    uint32_t token = 0;
    for (uint32_t rank = run.first; rank < run.end; rank++) {
        const struct logit_candidate *candidate = candidate_at(walk, rank);
        if (!candidate)
            break;
        token = candidate->token;
        sum += (double)candidate->weight;
        if (sum > target)
            break;
    }
    return token;
}

/* Of the first `count` candidates. */
static struct logit_moments weigh(struct logit_walk *walk, uint32_t count)
{
    struct logit_moments sums = {0};
    for (uint32_t rank = 0; rank < count; rank++) {
        const struct logit_candidate *candidate = candidate_at(walk, rank);
        if (!candidate)
            break;
        sums.weight += (double)candidate->weight;
        sums.weighted_log += (double)candidate->weight * (double)candidate->log_weight;
    }
    return sums;
}

/* What typical_p leaves of the first `count` candidates, whose sums are `sums`. */
static struct run keep_typical(struct logit_walk *walk, float typical_p, uint32_t count,
                               struct logit_moments sums)
{
    double mean = sums.weighted_log / sums.weight;
    uint32_t middle = 0; /* the first whose log is below the mean, or the end */
    const struct logit_candidate *below = NULL;
    while (middle < count && (below = candidate_at(walk, middle)) != NULL &&
           (double)below->log_weight >= mean)
        middle++;
    if (middle == count)
        below = NULL;
    struct run run = {.first = middle, .end = middle};
    double wanted = (double)typical_p * sums.weight;
    while (run.weight < wanted && (run.first > 0 || below)) {
        const struct logit_candidate *above =
            run.first > 0 ? candidate_at(walk, run.first - 1) : NULL;
        if (above &&
            (!below || (double)above->log_weight - mean <= mean - (double)below->log_weight)) {
            run.weight += (double)above->weight;
            run.first--;
            continue;
        }
        run.weight += (double)below->weight;
        run.end++;
        below = run.end < count ? candidate_at(walk, run.end) : NULL;
    }
    return run;
}

/* What top_p and min_p leave of a run, at least one candidate. */
static struct run filter(struct logit_walk *walk, const struct sampling_params *params,
                         struct run run)
{
    double sum = 0.0;
    float lightest = 0.0f;
    uint32_t rank = run.first;
    while (rank < run.end) {
        const struct logit_candidate *candidate = logit_walk_candidate(walk, rank);
        if (candidate && rank == run.first)
            lightest = params->min_p * candidate->weight;
        if (!candidate || (rank > run.first && candidate->weight < lightest))
            break;
        sum += (double)candidate->weight;
        rank++;
        if (params->top_p < 1.0f && sum >= (double)params->top_p * run.weight)
            break;
    }
    return (struct run){.first = run.first, .end = rank, .weight = sum};
}

static uint32_t draw(struct row_sampler *sampler, const struct row_sampling *sampling)
{
    const struct sampling_params *params = sampling->params;
    struct logit_walk *walk = &sampler->walk;
    logit_walk_descend(walk, params->temperature);
    double u = (double)uniform_draw(params->seed, sampling->position);

    struct run run = {.end = sampler->vocab_tokens};
    struct logit_moments sums = {0};
    bool cut = params->top_k > 0 && params->top_k < run.end;
    bool typical = params->typical_p < 1.0f;
    bool whole = params->top_p >= 1.0f && params->min_p <= 0.0f;
    if (cut) {
        run.end = params->top_k;
        sums = weigh(walk, run.end);
    } else if (typical) {
        sums = logit_walk_moments(walk, params->temperature);
    } else if (whole || params->top_p < 1.0f) {
        sums.weight = logit_walk_sum(walk, params->temperature);
    }
    run.weight = sums.weight;
    if (typical)
        run = keep_typical(walk, params->typical_p, run.end, sums);
    if (!whole)
        run = filter(walk, params, run);
    return pick(walk, run, u * run.weight);
}

static uint32_t choose(struct row_sampler *sampler, const float *logits,
                       const struct row_sampling *sampling)
{
    if (sampling->is_forced)
        return sampling->forced_token;
    const struct sampling_params *params = sampling->params;
    begin(sampler, adjust(sampler, logits, sampling));
    if (sampler->walk.largest == -INFINITY)
        return 0;
    if (params->temperature <= 0.0f)
        return logit_walk_largest(&sampler->walk);
    if (params->top_n_sigma > 0.0f)
        drop_below_sigma(sampler, params->top_n_sigma);
    return draw(sampler, sampling);
}

/* --- log-probabilities --- */

static float logprob_of(const struct logit_walk *walk, uint32_t token, double log_sum)
{
    double logprob = (double)walk->logits[token] - (double)walk->largest - log_sum;
    return isnan(logprob) ? -INFINITY : logprob < 0.0 ? (float)logprob : 0.0f;
}

void row_sampler_explain(struct row_sampler *sampler, const float *logits, uint32_t top_logprobs,
                         struct sampled_token *sampled)
{
    must(sampled->token < sampler->vocab_tokens && top_logprobs <= LIMIT_TOP_LOGPROBS);
    struct logit_walk *walk = &sampler->walk;
    begin(sampler, logits);
    sampled->alternative_count = 0;
    sampled->logprob = -INFINITY;
    if (walk->largest == -INFINITY)
        return;
    double log_sum = log(logit_walk_sum(walk, 1.0f));
    sampled->logprob = logprob_of(walk, sampled->token, log_sum);
    logit_walk_descend(walk, 1.0f);
    for (uint32_t rank = 0; rank < top_logprobs && rank < sampler->vocab_tokens; rank++) {
        const struct logit_candidate *candidate = candidate_at(walk, rank);
        if (!candidate)
            break;
        sampled->alternatives[sampled->alternative_count++] = (struct token_logprob){
            .token = candidate->token, .logprob = logprob_of(walk, candidate->token, log_sum)};
    }
}

struct sampled_token row_sampler_draw(struct row_sampler *sampler, const float *logits,
                                      const struct row_sampling *sampling)
{
    struct sampled_token sampled = {.token = choose(sampler, logits, sampling)};
    must(sampled.token < sampler->vocab_tokens);
    if (sampling->wants_logprob)
        row_sampler_explain(sampler, logits, sampling->top_logprobs, &sampled);
    return sampled;
}
