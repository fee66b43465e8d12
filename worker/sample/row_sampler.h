/*
 * One row of logits to one token, by that row's own parameters. Pure: the same row, parameters,
 * history and (seed, position) always give the same token, so a replayed or preempted request
 * continues as it would have.
 *
 * With l the raw logits (f32), in this order:
 *   l[t] += bias(t)                                             (logit_bias)
 *   t seen in prompt or output: l[t] = l[t] > 0 ? l[t] / repetition : l[t] * repetition
 *   t seen c > 0 times in the output: l[t] -= presence + frequency * c
 *   temperature 0: the largest l, lowest id among equals (filters have no effect)
 *   p = softmax(l / temperature)
 *   top_k: the k largest
 *   top_p: the smallest set of largest p whose sum >= top_p, of what top_k left (renormalized)
 *   min_p: p >= min_p * max p. Ties in p are ordered by id. At least one token stays.
 *   u = uniform(seed, position) in [0, 1): the first token, in descending order of p, whose
 *       cumulative sum exceeds u * total
 * uniform() is Philox4x32-10 keyed by the seed, countered by the position (Salmon et al., SC 2011).
 * logprob (only when asked): log_softmax of l after bias and penalties, before temperature.
 */
#ifndef SHOAL_WORKER_SAMPLE_ROW_SAMPLER_H
#define SHOAL_WORKER_SAMPLE_ROW_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/sampling_params.h"
#include "proto/submit_record.h" /* struct logit_bias_entry */

struct token_counts; /* worker/sample/token_counts.h: which tokens a sequence has seen */

struct row_sampling {
    const struct sampling_params *params;
    const struct token_counts *counts; /* NULL when no penalty is on */
    const struct logit_bias_entry *logit_bias;
    uint32_t logit_bias_count;
    uint32_t position; /* of the token being drawn: prompt tokens + tokens generated before it */
    /* Position of the first generated token, which is where the counts begin to count tokens as
     * generated: for backends that count by themselves. */
    uint32_t first_generated;
    bool wants_logprob;
};

struct sampled_token {
    uint32_t token;
    float logprob; /* 0 unless wanted */
};

/* Scratch for one thread, sized for a vocabulary. */
struct row_sampler;
struct row_sampler *row_sampler_create(uint32_t vocab_tokens);
void row_sampler_destroy(struct row_sampler *sampler);

/* `logits` [vocab_tokens] is not changed (a copy is made only when bias or penalties are on). NaN
 * counts as -infinity, +infinity as the largest finite number; a row with no logit above -infinity
 * gives token 0. */
struct sampled_token row_sampler_draw(struct row_sampler *sampler, const float *logits,
                                      const struct row_sampling *sampling);

/* u in [0, 1) from 24 bits: exposed for tests. */
float uniform_draw(uint64_t seed, uint32_t position);

#endif
