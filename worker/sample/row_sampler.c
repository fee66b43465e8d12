/*
 * Draws one token by the formulas of row_sampler.h, in three stages:
 *
 *   adjust    mask, bias, barred tokens, penalties and DRY change only the tokens that they name, and
 *             top_n_sigma removes tokens too far below the largest, in a copy of the row that is
 *             made only if needed
 *   greedy    a row with temperature 0 ends with its largest logit
 *   sample    other rows descend from the largest logit (logit_walk.h) as far as their filters and
 *             random number reach: top_k needs k candidates and no sum over the vocabulary, top_p
 *             needs that sum and few candidates, a row without filters stops at the drawn token
 *
 * Every filter, XTC and mirostat too, keeps a contiguous run of the descending order, so the kept tokens are two ranks.
 * This includes typical_p: -log p grows along the order, so the distance from the entropy falls and
 * then grows, and the nearest tokens are neighbours. With w the weights, -log p - H equals (mean of
 * log w) - log w, so no logarithm is taken.
 *
 * Weights are f32 and their sums integers (fixed_weight.h), so the same row and parameters give the
 * same token on every machine and on a GPU. Nothing is kept from one row to the next; the struct is
 * only scratch memory.
 */
#include "worker/sample/row_sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/sample/dry_penalty.h"
#include "worker/sample/dynamic_temperature.h"
#include "worker/sample/fixed_weight.h"
#include "worker/sample/logit_spread.h"
#include "worker/sample/logit_walk.h"
#include "worker/sample/speech_filter.h"
#include "worker/sample/token_counts.h"

struct row_sampler {
    uint32_t vocab_tokens;
    float *adjusted; /* [vocab_tokens] */
    struct logit_walk walk;
    struct dry_scratch dry;
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
    dry_scratch_fini(&sampler->dry);
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

bool row_sampling_needs_history(const struct row_sampling *sampling)
{
    return sampling->speech || sampling_params_has_dry(sampling->params) ||
           sampling_params_has_mirostat(sampling->params);
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

/* Of 32 tokens the mask mostly allows none or all; of those that it allows none the logits are not read. */
static void copy_allowed(const uint32_t *mask, const float *logits, uint32_t vocab_tokens,
                         float *row)
{
    for (uint32_t first = 0; first < vocab_tokens; first += 32) {
        uint32_t allowed = mask[first / 32];
        uint32_t count = vocab_tokens - first < 32 ? vocab_tokens - first : 32;
        for (uint32_t i = 0; i < count && allowed == 0; i++)
            row[first + i] = -INFINITY;
        for (uint32_t i = 0; i < count && allowed != 0; i++)
            row[first + i] = (allowed >> i & 1) != 0 ? logits[first + i] : -INFINITY;
    }
}

static void apply_dry(struct row_sampler *sampler, const struct row_sampling *sampling, float *row)
{
    const struct dry_history history = {.tokens = sampling->history,
                                        .count = sampling->position,
                                        .breakers = sampling->dry_breakers};
    dry_penalty_apply(&sampler->dry, sampling->params, &history, row, sampler->vocab_tokens);
}

/* The row after mask, bias, barred tokens, penalties, DRY and rules of speech; `logits` itself if there are none. */
static const float *adjust(struct row_sampler *sampler, const float *logits,
                           const struct row_sampling *sampling)
{
    if (sampling->logit_bias_count == 0 && sampling->barred_count == 0 && !sampling->mask &&
        !row_sampling_has_penalties(sampling) && !sampling_params_has_dry(sampling->params) &&
        !sampling->speech)
        return logits;
    float *row = sampler->adjusted;
    if (sampling->mask)
        copy_allowed(sampling->mask, logits, sampler->vocab_tokens, row);
    else
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
    if (sampling_params_has_dry(sampling->params))
        apply_dry(sampler, sampling, row);
    if (sampling->speech)
        speech_filter_apply(sampling->speech, sampling->history + sampling->first_generated,
                            sampling->position - sampling->first_generated, row,
                            sampler->vocab_tokens);
    return row;
}

/* Starts the walk over the adjusted row, after clamping an infinite largest logit. */
static void begin(struct row_sampler *sampler, const float *row)
{
    logit_walk_begin(&sampler->walk, row);
    if (sampler->walk.largest != INFINITY)
        return;
    for (uint32_t token = 0; token < sampler->vocab_tokens; token++)
        sampler->adjusted[token] = row[token] == INFINITY ? FLT_MAX : row[token];
    logit_walk_begin(&sampler->walk, sampler->adjusted);
}

/* Removes the tokens below the cut-off of top_n_sigma. The largest logit is finite and stays. */
static void drop_below_sigma(struct row_sampler *sampler, float top_n_sigma)
{
    const float *logits = sampler->walk.logits;
    float largest = sampler->walk.largest;
    struct logit_cutoff cutoff = logit_spread_cutoff(&sampler->walk, top_n_sigma);
    for (uint32_t token = 0; token < sampler->vocab_tokens; token++)
        sampler->adjusted[token] =
            logit_spread_keeps(&cutoff, largest - logits[token]) ? logits[token] : -INFINITY;
    logit_walk_begin(&sampler->walk, sampler->adjusted);
}

/* --- the draw --------------------------------------------------------------------------------- */

/* Ranks [first, end) and the fixed-point sum of their weights. */
struct run {
    uint32_t first;
    uint32_t end;
    uint64_t weight;
};

/* The candidate of that rank; NULL for ranks whose weight is 0. */
static const struct logit_candidate *candidate_at(struct logit_walk *walk, uint32_t rank)
{
    const struct logit_candidate *candidate = logit_walk_candidate(walk, rank);
    return candidate && (candidate->weight > 0.0f || rank == 0) ? candidate : NULL;
}

/* The first candidate whose cumulative weight exceeds `target`. If rounding keeps the sum below it,
 * the last candidate with a weight above 0; NULL: the run has none. */
static const struct logit_candidate *pick(struct logit_walk *walk, struct run run, uint64_t target)
{
    uint64_t sum = 0;
    const struct logit_candidate *picked = NULL;
    for (uint32_t rank = run.first; rank < run.end; rank++) {
        const struct logit_candidate *candidate = candidate_at(walk, rank);
        if (!candidate)
            break;
        picked = candidate;
        sum += fixed_weight_of(candidate->weight);
        if (sum > target)
            break;
    }
    return picked;
}

/* Sums of the first `count` candidates. */
static struct logit_sums weigh(struct logit_walk *walk, uint32_t count)
{
    struct logit_sums sums = {0};
    for (uint32_t rank = 0; rank < count; rank++) {
        const struct logit_candidate *candidate = candidate_at(walk, rank);
        if (!candidate)
            break;
        logit_walk_add(&sums, candidate->weight, candidate->log_weight);
    }
    return sums;
}

static uint32_t away_from(uint32_t mean, const struct logit_candidate *candidate)
{
    uint32_t distance = fixed_weight_distance(candidate->log_weight);
    return distance > mean ? distance - mean : mean - distance;
}

/* The run that typical_p keeps of the first `count` candidates, whose sums are `sums`. */
static struct run keep_typical(struct logit_walk *walk, float typical_p, uint32_t count,
                               struct logit_sums sums)
{
    uint32_t mean = fixed_weight_mean(sums.entropy, sums.weight);
    uint64_t wanted = fixed_weight_scale_up(sums.weight, typical_p);
    uint32_t middle = 0; /* first candidate that is less likely than the mean, or the end */
    const struct logit_candidate *below = NULL;
    while (middle < count && (below = candidate_at(walk, middle)) != NULL &&
           fixed_weight_distance(below->log_weight) <= mean)
        middle++;
    if (middle == count)
        below = NULL;
    struct run run = {.first = middle, .end = middle};
    uint32_t reach = 0;
    while (run.first > 0 || below) {
        const struct logit_candidate *above =
            run.first > 0 ? candidate_at(walk, run.first - 1) : NULL;
        bool is_above = above && (!below || away_from(mean, above) <= away_from(mean, below));
        const struct logit_candidate *nearest = is_above ? above : below;
        if (run.weight >= wanted && away_from(mean, nearest) > reach)
            break;
        reach = away_from(mean, nearest);
        run.weight += fixed_weight_of(nearest->weight);
        if (is_above) {
            run.first--;
            continue;
        }
        run.end++;
        below = run.end < count ? candidate_at(walk, run.end) : NULL;
    }
    return run;
}

/* The part of a run that top_p and min_p keep: at least one candidate. */
static struct run filter(struct logit_walk *walk, const struct sampling_params *params,
                         struct run run)
{
    uint64_t sum = 0;
    uint64_t wanted = fixed_weight_scale_up(run.weight, params->top_p);
    float lightest = 0.0f;
    uint32_t rank = run.first;
    while (rank < run.end) {
        const struct logit_candidate *candidate = logit_walk_candidate(walk, rank);
        if (candidate && rank == run.first)
            lightest = params->min_p * candidate->weight;
        if (!candidate || (rank > run.first && candidate->weight < lightest))
            break;
        sum += fixed_weight_of(candidate->weight);
        rank++;
        if (params->top_p < 1.0f && sum >= wanted)
            break;
    }
    return (struct run){.first = run.first, .end = rank, .weight = sum};
}

/* The run without the top choices that XTC excludes. */
static struct run exclude_top(struct logit_walk *walk, float threshold, struct run run)
{
    uint64_t least = fixed_weight_scale_up(run.weight, threshold);
    uint64_t passed = 0; /* weight of the candidates before `rank` */
    for (uint32_t rank = run.first; rank < run.end; rank++) {
        const struct logit_candidate *candidate = candidate_at(walk, rank);
        if (!candidate || fixed_weight_of(candidate->weight) < least)
            break;
        run.first = rank;
        run.weight -= passed;
        passed = fixed_weight_of(candidate->weight);
    }
    return run;
}

static uint32_t draw(struct row_sampler *sampler, const struct row_sampling *sampling,
                     float temperature)
{
    const struct sampling_params *params = sampling->params;
    struct logit_walk *walk = &sampler->walk;
    logit_walk_descend(walk, temperature);
    float u = uniform_draw(params->seed, sampling->position);

    struct run run = {.end = sampler->vocab_tokens};
    struct logit_sums sums = {0};
    bool cut = params->top_k > 0 && params->top_k < run.end;
    bool typical = params->typical_p < 1.0f;
    bool whole = params->top_p >= 1.0f && params->min_p <= 0.0f;
    if (cut) {
        run.end = params->top_k;
        sums = weigh(walk, run.end);
    } else if (params->top_n_sigma > 0.0f) {
        sums = logit_walk_count(walk);
    } else if (typical) {
        sums = logit_walk_sums(walk);
    } else if (whole || params->top_p < 1.0f) {
        sums.weight = logit_walk_weight(walk);
    }
    run.weight = sums.weight;
    if (typical)
        run = keep_typical(walk, params->typical_p, run.end, sums);
    if (!whole)
        run = filter(walk, params, run);
    if (sampling_params_has_xtc(params) &&
        uniform_coin(params->seed, sampling->position) < params->xtc_probability)
        run = exclude_top(walk, params->xtc_threshold, run);
    const struct logit_candidate *picked = pick(walk, run, fixed_weight_scale(run.weight, u));
    return picked ? picked->token : 0;
}

/* --- mirostat --------------------------------------------------------------------------------- */

#define LOG2_E          1.4426950408889634
#define MIROSTAT_MU_MAX 1e9      /* as rule T17 */
#define SMALLEST_LOG2   (-127.0) /* of a weight above 0 */
#define FIXED_LOG2_UNIT 0x1p-24

/* log2 of a sum of weights. */
static double log2_of(uint64_t weight)
{
    return (double)fixed_weight_log2(weight) * FIXED_LOG2_UNIT - FIXED_WEIGHT_BITS;
}

/* -log2 of the probability of a candidate among candidates of that weight. */
static double surprise_of(const struct logit_candidate *candidate, double log2_weight)
{
    return log2_weight - (double)candidate->log_weight * LOG2_E;
}

/* The candidates whose surprise is at most `mu`: at least one. */
static struct run keep_expected(struct logit_walk *walk, double mu)
{
    struct run run = {.end = walk->vocab_tokens, .weight = logit_walk_weight(walk)};
    double log2_weight = log2_of(run.weight);
    if (mu > log2_weight - SMALLEST_LOG2)
        return run;
    uint64_t sum = 0;
    uint32_t rank = 0;
    for (; rank < walk->vocab_tokens; rank++) {
        const struct logit_candidate *candidate = candidate_at(walk, rank);
        if (!candidate || (rank > 0 && surprise_of(candidate, log2_weight) > mu))
            break;
        sum += fixed_weight_of(candidate->weight);
    }
    return (struct run){.end = rank, .weight = sum};
}

static uint32_t draw_mirostat(struct row_sampler *sampler, const struct row_sampling *sampling,
                              float temperature, float *mu)
{
    const struct sampling_params *params = sampling->params;
    struct logit_walk *walk = &sampler->walk;
    logit_walk_descend(walk, temperature);
    struct run run = keep_expected(walk, (double)params->mirostat_mu);
    float u = uniform_draw(params->seed, sampling->position);
    const struct logit_candidate *picked = pick(walk, run, fixed_weight_scale(run.weight, u));
    must(picked);
    double error = surprise_of(picked, log2_of(run.weight)) - (double)params->mirostat_tau;
    double next = (double)params->mirostat_mu - (double)params->mirostat_eta * error;
    *mu = (float)fmin(fmax(next, -MIROSTAT_MU_MAX), MIROSTAT_MU_MAX);
    return picked->token;
}

/* Sets the token and mirostat's next state. */
static void choose(struct row_sampler *sampler, const float *logits,
                   const struct row_sampling *sampling, struct sampled_token *sampled)
{
    const struct sampling_params *params = sampling->params;
    bool mirostat = sampling_params_has_mirostat(params);
    *sampled = (struct sampled_token){.mirostat_mu = params->mirostat_mu};
    if (sampling->is_forced) {
        sampled->token = sampling->forced_token;
        return;
    }
    begin(sampler, adjust(sampler, logits, sampling));
    if (sampler->walk.largest == -INFINITY)
        return;
    float temperature = params->temperature;
    if (temperature > 0.0f && params->top_n_sigma > 0.0f && !mirostat)
        drop_below_sigma(sampler, params->top_n_sigma);
    if (sampling_params_has_dynatemp(params))
        temperature = dynamic_temperature(&sampler->walk, params);
    if (temperature <= 0.0f)
        sampled->token = logit_walk_largest(&sampler->walk);
    else if (mirostat)
        sampled->token = draw_mirostat(sampler, sampling, temperature, &sampled->mirostat_mu);
    else
        sampled->token = draw(sampler, sampling, temperature);
}

/* --- log-probabilities ------------------------------------------------------------------------ */

float row_sampler_logprob(float logit, float largest, double log_sum)
{
    double logprob = (double)logit - (double)largest - log_sum;
    return isnan(logprob) ? -INFINITY : logprob < 0.0 ? (float)logprob : 0.0f;
}

static float logprob_of(const struct logit_walk *walk, uint32_t token, double log_sum)
{
    return row_sampler_logprob(walk->logits[token], walk->largest, log_sum);
}

void row_sampler_explain(struct row_sampler *sampler, const float *logits, uint32_t top_logprobs,
                         struct sampled_token *sampled)
{
    must(sampled->token < sampler->vocab_tokens && top_logprobs <= LIMIT_TOP_LOGPROBS);
    struct logit_walk *walk = &sampler->walk;
    begin(sampler, logits);
    sampled->alternative_count = 0;
    sampled->logprob = -INFINITY;
    sampled->rank = logit_walk_rank(walk, sampled->token);
    if (walk->largest == -INFINITY)
        return;
    logit_walk_descend(walk, 1.0f);
    double log_sum = log(fixed_weight_value(logit_walk_weight(walk)));
    sampled->logprob = logprob_of(walk, sampled->token, log_sum);
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
    struct sampled_token sampled;
    choose(sampler, logits, sampling, &sampled);
    must(sampled.token < sampler->vocab_tokens);
    if (sampling->wants_logprob && sampling->speech)
        logits = adjust(sampler, logits, sampling);
    if (sampling->wants_logprob)
        row_sampler_explain(sampler, logits, sampling->top_logprobs, &sampled);
    return sampled;
}
