/*
 * How one request's tokens are drawn: parameters of every row are its own. Plain data that crosses
 * shared memory, so it has a fixed layout and sampling_params_check() is run by both sides.
 *
 * Order of application (row_sampler.h has the formulas): logit_bias, repetition, presence and
 * frequency penalties, top_n_sigma, temperature, then the filters top_k, typical_p, top_p, min_p on
 * the tempered distribution, then one draw from the counter-based stream keyed by (seed, position).
 * Log-probabilities are of the distribution before all of these.
 */
#ifndef SHOAL_PROTO_SAMPLING_PARAMS_H
#define SHOAL_PROTO_SAMPLING_PARAMS_H

#include <stdint.h>

#include "proto/result.h"

struct sampling_params {
    uint64_t seed;
    float temperature;        /* 0 = greedy; 0..2 */
    float top_p;              /* (0, 1]; 1 = off */
    float min_p;              /* [0, 1]; 0 = off */
    float typical_p;          /* (0, 1]; 1 = off */
    float top_n_sigma;        /* [0, 100] standard deviations of the logits; 0 = off */
    float repetition_penalty; /* (0, 10]; 1 = off; prompt and generated, as transformers does */
    float presence_penalty;   /* [-2, 2]; over generated tokens (as the OpenAI API says) */
    float frequency_penalty;  /* [-2, 2]; likewise */
    uint32_t top_k;           /* 0 = off */
    /* How many of the last tokens, prompt and generated together, each penalty looks at; 0 = all,
     * LIMIT_CONTEXT_TOKENS at most. */
    uint32_t repetition_context;
    uint32_t presence_context;
    uint32_t frequency_context;
};
_Static_assert(sizeof(struct sampling_params) == 56, "crosses shared memory: layout is fixed");

/* Greedy, no filters, no penalties, seed 0. */
struct sampling_params sampling_params_default(void);

/* RESULT_INVALID naming the field when a number is out of range or not finite. */
enum result sampling_params_check(const struct sampling_params *params,
                                  struct error_text *error) RESULT_CHECKED;

#endif
