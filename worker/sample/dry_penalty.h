/*
 * DRY ("don't repeat yourself", p-e-w, 2024; as in llama.cpp): lowers the logit of a token that would
 * make the end of the text repeat a longer part of it.
 *
 * Among the last dry_context tokens, for each earlier place where the last n tokens occur, the token
 * that followed them would extend a repetition of n tokens. If n >= dry_allowed_length, its logit
 * loses multiplier * base ^ (n - allowed_length), with its largest n. No repetition reaches back over
 * a sequence breaker (proto/dry_breakers.h): n is at most the number of tokens after the last one.
 */
#ifndef SHOAL_WORKER_SAMPLE_DRY_PENALTY_H
#define SHOAL_WORKER_SAMPLE_DRY_PENALTY_H

#include "proto/dry_breakers.h"
#include "proto/sampling_params.h"

struct dry_history {
    const uint32_t *tokens; /* [count] prompt and generated, oldest first; below vocab_tokens */
    uint32_t count;
    const struct dry_breakers *breakers; /* NULL: none */
};

/* Zeroed: nothing is allocated yet. Grows with the history. */
struct dry_scratch {
    uint32_t *matches; /* [capacity] */
    uint32_t *longest; /* [vocab_tokens] zero between calls */
    uint32_t capacity;
};
void dry_scratch_fini(struct dry_scratch *scratch);

void dry_penalty_apply(struct dry_scratch *scratch, const struct sampling_params *params,
                       const struct dry_history *history, float *row, uint32_t vocab_tokens);

#endif
