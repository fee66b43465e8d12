/*
 * Draws one token from one row of logits with that row's own parameters. Pure: the same row,
 * parameters, history and (seed, position) always give the same token, so a replayed or preempted
 * request continues as it would have.
 *
 * With l the raw logits (f32), in this order:
 *
 *   logit_bias    l[t] += bias(t)
 *   barred        l[t] = -infinity
 *   mask          l[t] = -infinity for tokens that the grammar does not allow
 *   repetition    t in prompt or output: l[t] = l[t] > 0 ? l[t] / repetition : l[t] * repetition
 *   presence,     t c > 0 times in the output: l[t] -= presence + frequency * c
 *   frequency
 *   DRY           l[t] -= multiplier * base ^ (n - allowed_length), if t once followed the last
 *                 n >= allowed_length tokens (dry_penalty.h)
 *   temperature   0: the largest l, lowest id among equals; the filters have no effect
 *   top_n_sigma   keeps l >= max l - top_n_sigma * sigma (standard deviation of finite l)
 *                 (Tang et al., "Top-n sigma: not all logits are you need", 2024; as in llama.cpp)
 *   dynatemp      temperature = low + (high - low) * (H / log n) ^ exponent, with low and high =
 *                 temperature -+ range, at least 0, H the entropy of softmax(l) and n the number of
 *                 finite l (as in llama.cpp)
 *   softmax       p = softmax(l / temperature)
 *   top_k         keeps the k largest p
 *   typical_p     the smallest set whose sum >= typical_p by ascending |-log p - H|, with p
 *                 renormalized after top_k and H its entropy (Meister et al., "Locally typical
 *                 sampling", 2022; as in llama.cpp and transformers). Of tokens at equal distances,
 *                 in units of 2^-24, all are taken or none
 *   top_p         the smallest set of largest p whose sum >= top_p, renormalized after typical_p
 *   min_p         keeps p >= min_p * max p, of the p that are left
 *   XTC           if uniform_coin(seed, position) < xtc_probability: removes each token with p >=
 *                 xtc_threshold, renormalized after min_p, but the least likely of these (p-e-w,
 *                 "Exclude top choices", 2024; as in llama.cpp)
 *   mirostat      instead of top_n_sigma and the filters: keeps the tokens with -log2 p <= mu, at
 *                 least one; after the draw mu -= eta * (s - tau), with s the drawn token's -log2 p,
 *                 renormalized (Basu et al., "Mirostat", 2021, version 2; as in llama.cpp). A
 *                 forced token leaves mu as it is
 *   draw          u = uniform(seed, position) in [0, 1): the first token in descending order of p
 *                 whose cumulative sum exceeds u * total
 *
 * Rules of speech (proto/speech_rules.h) come after the penalties. With them log-probabilities are those of the row
 * that they leave.
 *
 * A penalty counts tokens within its own context: the last repetition_context, presence_context or
 * frequency_context positions, 0 = all. Equal p are ordered by id. At least one token is kept.
 * uniform() is Philox4x32-10 with the seed as key and the position as counter (Salmon et al., SC
 * 2011). A forced token replaces the result of all steps. Log-probabilities and alternatives, if
 * requested, are log_softmax of the raw logits, before logit_bias and everything after it.
 */
#ifndef SHOAL_WORKER_SAMPLE_ROW_SAMPLER_H
#define SHOAL_WORKER_SAMPLE_ROW_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/run_params.h" /* struct logit_bias_entry */
#include "proto/sampling_params.h"
#include "proto/token_event.h" /* struct token_logprob */

struct token_counts; /* worker/sample/token_counts.h */
struct dry_breakers; /* proto/dry_breakers.h */

struct row_sampling {
    const struct sampling_params *params;
    const struct token_counts *counts; /* NULL if no penalty is on */
    const struct logit_bias_entry *logit_bias;
    uint32_t logit_bias_count;
    const uint32_t *barred; /* [barred_count] tokens that cannot be drawn */
    uint32_t barred_count;  /* <= ROW_BARRED_MAX */
    /* [ceil(vocab_tokens / 32)] token t may be drawn if bit t % 32 of word t / 32 is set; NULL:
     * any. At least one is set. If the model gives all of these -infinity, token 0 is drawn. */
    const uint32_t *mask;
    uint32_t position; /* of the token being drawn: prompt tokens + tokens generated before it */
    const uint32_t *history; /* [position] the tokens before it; only read with DRY and `speech` */
    const struct speech_rules *speech;       /* NULL: none */
    const struct dry_breakers *dry_breakers; /* NULL: none */
    /* Position of the first generated token, for backends that keep the counts of generated tokens
     * themselves. */
    uint32_t first_generated;
    bool is_forced; /* forced_token is drawn */
    uint32_t forced_token;
    bool wants_logprob;
    uint32_t
        top_logprobs; /* number of alternatives, <= LIMIT_TOP_LOGPROBS; 0 without wants_logprob */
};
/* Whether a penalty is on and counts are given for it. */
bool row_sampling_has_penalties(const struct row_sampling *sampling);
/* Whether the draw needs the token before it on the host: with DRY and rules of speech, which read the history, and
 * mirostat, whose state follows from it. Forced draws of such a request included. */
bool row_sampling_needs_history(const struct row_sampling *sampling);
/* Stop ids before min_tokens, and the token that would start thinking again. */
#define ROW_BARRED_MAX (LIMIT_STOP_TOKENS + 1u)

struct sampled_token {
    uint32_t token;
    float logprob;     /* 0 unless wants_logprob */
    float mirostat_mu; /* sampling_params.mirostat_mu for the next draw */
    /* Tokens whose raw logit is at least the token's, itself included: 1..vocab_tokens. 0 without
     * wants_logprob; backends may leave it 0 for drawn tokens. */
    uint32_t rank;
    /* The most likely tokens in descending order, equal ones by id: as many as requested, as far as
     * their probability is above 1e-38 of the first one's. */
    uint32_t alternative_count;
    struct token_logprob alternatives[LIMIT_TOP_LOGPROBS];
};

/* Scratch for one thread, sized for a vocabulary. */
struct row_sampler;
struct row_sampler *row_sampler_create(uint32_t vocab_tokens);
void row_sampler_destroy(struct row_sampler *sampler);

/* Draws from `logits` [vocab_tokens], which is not changed: bias, mask, penalties and top_n_sigma
 * work on a copy. NaN counts as -infinity, +infinity as the largest finite number. A row without a logit
 * above -infinity gives token 0. */
struct sampled_token row_sampler_draw(struct row_sampler *sampler, const float *logits,
                                      const struct row_sampling *sampling);

/* Computes the log-probability and the rank of sampled->token and the alternatives from the raw logits, for a
 * token that was drawn elsewhere. */
void row_sampler_explain(struct row_sampler *sampler, const float *logits, uint32_t top_logprobs,
                         struct sampled_token *sampled);
/* log_softmax of one logit; log_sum is the logarithm of the row's sum of exp(logit - largest). */
float row_sampler_logprob(float logit, float largest, double log_sum);

/* u in [0, 1) with 24 bits, and a second one, independent of it; public for tests. */
float uniform_draw(uint64_t seed, uint32_t position);
float uniform_coin(uint64_t seed, uint32_t position);

#endif
