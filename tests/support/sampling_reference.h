/*
 * A plain implementation of the formulas of worker/sample/row_sampler.h, against which samplers are
 * tested: f64, full sorts, libm, counts from the whole history each time.
 */
#ifndef SHOAL_TESTS_SUPPORT_SAMPLING_REFERENCE_H
#define SHOAL_TESTS_SUPPORT_SAMPLING_REFERENCE_H

#include "worker/sample/row_sampler.h"

/* A row and the history of its sequence; sampling->counts is not read. */
struct reference_row {
    const float *logits; /* [vocab_tokens] */
    uint32_t vocab_tokens;
    const struct row_sampling *sampling;
    const uint32_t *tokens; /* [token_count] the last ones before the draw; NULL for none */
    uint32_t token_count;
    uint32_t prompt_count; /* how many of them are prompt */
};

struct reference_draw {
    double *p; /* [vocab_tokens] what each token is drawn with; the caller frees it */
    uint32_t token;
    double logprob; /* of that token */
    /* How far the nearest decision was from going the other way, relative: below rounding either
     * side is right. */
    double margin;
};

struct reference_draw sampling_reference_draw(const struct reference_row *row);

#endif
