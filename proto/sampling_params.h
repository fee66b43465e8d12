/*
 * How the tokens of one request are drawn. Both processes run sampling_params_check().
 *
 * Order of application (row_sampler.h has the formulas): logit_bias, repetition, presence and
 * frequency penalties, DRY, top_n_sigma, temperature (dynamic if it has a range), then the filters
 * top_k, typical_p, top_p, min_p, XTC on the tempered distribution, or mirostat in place of all
 * filters, then one draw from the counter-based stream keyed by (seed, position). Log-probabilities
 * are of the distribution before all of these.
 *
 * Byte map of struct sampling_params, 104 bytes. Written by the frontend. Numbers are finite.
 *
 *   offset  size  field               rule
 *   0       8     seed                any
 *   8       4     temperature         0..2; 0: greedy
 *   12      4     top_p               (0, 1]; 1: off
 *   16      4     min_p               [0, 1]; 0: off
 *   20      4     typical_p           (0, 1]; 1: off
 *   24      4     top_n_sigma         [0, 100] standard deviations of the logits; 0: off
 *   28      4     repetition_penalty  (0, 10]; 1: off; over prompt and generated tokens, as in
 *                                     transformers
 *   32      4     presence_penalty    [-2, 2]; over generated tokens, as in the OpenAI API
 *   36      4     frequency_penalty   [-2, 2]; likewise
 *   40      4     top_k               any; 0: off
 *   44      4     repetition_context  the penalty covers this many of the last tokens, prompt and
 *                                     generated together: 0..LIMIT_CONTEXT_TOKENS; 0: all
 *   48      4     presence_context    likewise
 *   52      4     frequency_context   likewise
 *   56      4     dynatemp_range      [0, 10]: the temperature is within this of `temperature`; 0: off
 *   60      4     dynatemp_exponent   [0, 10]
 *   64      4     xtc_probability     [0, 1]; 0: off
 *   68      4     xtc_threshold       [0, 1]; above 0.5: no effect
 *   72      4     mirostat            0: off; 2: version 2
 *   76      4     mirostat_tau        [0, 100] bits
 *   80      4     mirostat_eta        [0, 1]
 *   84      4     mirostat_mu         [-10^9, 10^9] bits; the state before the next draw. The worker
 *                                     reports it after each token (token_event.h), so that a replay
 *                                     continues with it
 *   88      4     dry_multiplier      [0, 100]; 0: off
 *   92      4     dry_base            [0, 100]; below 1: off
 *   96      4     dry_allowed_length  0..LIMIT_CONTEXT_TOKENS
 *   100     4     dry_context         DRY looks at this many of the last tokens, prompt and generated
 *                                     together: 0..LIMIT_CONTEXT_TOKENS; 0: all
 */
#ifndef SHOAL_PROTO_SAMPLING_PARAMS_H
#define SHOAL_PROTO_SAMPLING_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"

struct sampling_params {
    uint64_t seed;
    float temperature;
    float top_p;
    float min_p;
    float typical_p;
    float top_n_sigma;
    float repetition_penalty;
    float presence_penalty;
    float frequency_penalty;
    uint32_t top_k;
    uint32_t repetition_context;
    uint32_t presence_context;
    uint32_t frequency_context;
    float dynatemp_range;
    float dynatemp_exponent;
    float xtc_probability;
    float xtc_threshold;
    uint32_t mirostat;
    float mirostat_tau;
    float mirostat_eta;
    float mirostat_mu;
    float dry_multiplier;
    float dry_base;
    uint32_t dry_allowed_length;
    uint32_t dry_context;
};
_Static_assert(sizeof(struct sampling_params) == 104, "crosses shared memory: layout is fixed");

/* Greedy, no filters, no penalties, seed 0. */
struct sampling_params sampling_params_default(void);

/* Whether they change a draw. At temperature 0 only DRY does. */
bool sampling_params_has_dynatemp(const struct sampling_params *params);
bool sampling_params_has_xtc(const struct sampling_params *params);
bool sampling_params_has_mirostat(const struct sampling_params *params);
bool sampling_params_has_dry(const struct sampling_params *params);

/* RESULT_INVALID, and the error text names the field, if a number is out of range or not finite. */
enum result sampling_params_check(const struct sampling_params *params,
                                  struct error_text *error) RESULT_CHECKED;

#endif
