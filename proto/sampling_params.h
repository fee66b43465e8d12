/*
 * How the tokens of one request are drawn. Both processes run sampling_params_check().
 *
 * Order of application (row_sampler.h has the formulas): logit_bias, repetition, presence and
 * frequency penalties, top_n_sigma, temperature, then the filters top_k, typical_p, top_p, min_p on
 * the tempered distribution, then one draw from the counter-based stream keyed by (seed, position).
 * Log-probabilities are of the distribution before all of these.
 *
 * Byte map of struct sampling_params, 56 bytes. Written by the frontend. Numbers are finite.
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
 */
#ifndef SHOAL_PROTO_SAMPLING_PARAMS_H
#define SHOAL_PROTO_SAMPLING_PARAMS_H

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
};
_Static_assert(sizeof(struct sampling_params) == 56, "crosses shared memory: layout is fixed");

/* Greedy, no filters, no penalties, seed 0. */
struct sampling_params sampling_params_default(void);

/* RESULT_INVALID, and the error text names the field, if a number is out of range or not finite. */
enum result sampling_params_check(const struct sampling_params *params,
                                  struct error_text *error) RESULT_CHECKED;

#endif
