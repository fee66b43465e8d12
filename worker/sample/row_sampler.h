/*
 * One row of logits to one token, by that row's own parameters. Pure: the same row, parameters,
 * history and (seed, position) always give the same token, so a replayed or preempted request
 * continues as it would have.
 *
 * With l the raw logits (f32), in this order:
 *   l[t] += bias(t)                                             (logit_bias)
 *   l[t] = -infinity for t that are barred
 *   t seen in prompt or output: l[t] = l[t] > 0 ? l[t] / repetition : l[t] * repetition
 *   t seen c > 0 times in the output: l[t] -= presence + frequency * c
 *     "seen" is within the penalty's context, the last so many positions (the parameters
 *     repetition_context, presence_context, frequency_context; 0 = all)
 *   temperature 0: the largest l, lowest id among equals (filters have no effect)
 *   top_n_sigma: l >= max l - top_n_sigma * sigma, the standard deviation of the finite l
 *     (Tang et al., "Top-n sigma: not all logits are you need", 2024; as llama.cpp has it)
 *   p = softmax(l / temperature)
 *   top_k: the k largest
 *   typical_p: of what top_k left (renormalized), with its entropy H, the smallest set whose sum
 *     >= typical_p, taken in ascending order of |-log p - H| (Meister et al., "Locally typical
 *     sampling", 2022; as llama.cpp and transformers have it). Of equal distances, in units of
 *     2^-24, all are taken or none
 *   top_p: the smallest set of largest p whose sum >= top_p, of what is left (renormalized)
 *   min_p: p >= min_p * max p of what is left. Ties in p are ordered by id. At least one token
 *     stays.
 *   u = uniform(seed, position) in [0, 1): the first token, in descending order of p, whose
 *       cumulative sum exceeds u * total
 * uniform() is Philox4x32-10 keyed by the seed, countered by the position (Salmon et al., SC 2011).
 * A forced token is taken whatever all this says.
 * logprob and alternatives (only when asked): log_softmax of the raw logits, before bias and all
 * that follows.
 */
#ifndef SHOAL_WORKER_SAMPLE_ROW_SAMPLER_H
#define SHOAL_WORKER_SAMPLE_ROW_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/run_params.h" /* struct logit_bias_entry */
#include "proto/sampling_params.h"
#include "proto/token_event.h" /* struct token_logprob */

struct token_counts; /* worker/sample/token_counts.h: which tokens a sequence has seen */

struct row_sampling {
    const struct sampling_params *params;
    const struct token_counts *counts; /* NULL when no penalty is on */
    const struct logit_bias_entry *logit_bias;
    uint32_t logit_bias_count;
    const uint32_t *barred; /* [barred_count] tokens that cannot be drawn */
    uint32_t barred_count;  /* <= ROW_BARRED_MAX */
    uint32_t position; /* of the token being drawn: prompt tokens + tokens generated before it */
    /* Position of the first generated token, which is where the counts begin to count tokens as
     * generated: for backends that count by themselves. */
    uint32_t first_generated;
    bool is_forced; /* forced_token is what is drawn */
    uint32_t forced_token;
    bool wants_logprob;
    uint32_t top_logprobs; /* alternatives wanted, <= LIMIT_TOP_LOGPROBS; 0 without wants_logprob */
};
/* Is there a penalty, and are there counts for it? */
bool row_sampling_has_penalties(const struct row_sampling *sampling);
/* Stop ids before min_tokens, and the token that would begin thinking again. */
#define ROW_BARRED_MAX (LIMIT_STOP_TOKENS + 1u)

struct sampled_token {
    uint32_t token;
    float logprob; /* 0 unless wanted */
    /* The most likely tokens in descending order, equal ones by id, as many as are wanted and are
     * likelier than 1e-38 of the first. */
    uint32_t alternative_count;
    struct token_logprob alternatives[LIMIT_TOP_LOGPROBS];
};

/* Scratch for one thread, sized for a vocabulary. */
struct row_sampler;
struct row_sampler *row_sampler_create(uint32_t vocab_tokens);
void row_sampler_destroy(struct row_sampler *sampler);

/* `logits` [vocab_tokens] is not changed (a copy is made only when bias, penalties or top_n_sigma
 * are on). NaN counts as -infinity, +infinity as the largest finite number; a row with no logit
 * above -infinity gives token 0. */
struct sampled_token row_sampler_draw(struct row_sampler *sampler, const float *logits,
                                      const struct row_sampling *sampling);

/* The log-probability of sampled->token and the alternatives, from the raw logits, for a token that
 * was drawn elsewhere. */
void row_sampler_explain(struct row_sampler *sampler, const float *logits, uint32_t top_logprobs,
                         struct sampled_token *sampled);
/* log_softmax of one of a row's logits: log_sum is the logarithm of the row's sum of
 * exp(logit - largest). */
float row_sampler_logprob(float logit, float largest, double log_sum);

/* u in [0, 1) from 24 bits: exposed for tests. */
float uniform_draw(uint64_t seed, uint32_t position);

#endif
