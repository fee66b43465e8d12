/*
 * Compares the worker with a recorded reference when it is fed the reference's own tokens.
 */
#ifndef SHOAL_TESTS_SUPPORT_REFERENCE_AGREEMENT_H
#define SHOAL_TESTS_SUPPORT_REFERENCE_AGREEMENT_H

#include <stdint.h>

#include "proto/kv_cache_type.h"

struct agreement_case {
    const char *model;              /* GGUF file */
    const char *reference;          /* llama_cpp_reference.py's or transformers_reference.py's */
    uint32_t activation_bits;       /* 8, 16 */
    enum kv_cache_type kv_type;     /* of our cache */
    double best_agrees_least;       /* share of greedy positions where the best token is the same */
    double disagreement_lead_most;  /* reference's lead of its best token, where we disagree */
    double logprob_difference_most; /* mean over greedy positions of |difference|, chosen token */
    /* |difference| at any position, of the chosen token, and of the reference's alternatives;
     * INFINITY: any */
    double any_logprob_difference_most;
    double any_alternative_difference_most;
    double perplexity_ratio_most; /* of the text: |ours / theirs - 1| */
};

/* Scores, prints the figures and every disagreement, and fails the running test outside the bounds.
 */
void reference_agreement_check(const struct agreement_case *c);

#endif
