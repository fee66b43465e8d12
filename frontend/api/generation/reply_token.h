/*
 * What the worker's events tell a reply: a token, the progress of a prompt, and how much of the
 * prompt came from caches.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_REPLY_TOKEN_H
#define SHOAL_FRONTEND_API_GENERATION_REPLY_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/token_event.h"

struct reply_token {
    uint32_t id;
    bool is_stop; /* ends the answer: it is counted, but has no text */
    /* Natural logarithm of its probability in the raw distribution (proto/token_event.h); 0 unless
     * the request wants logprobs. -INFINITY is possible for a forced token. */
    float logprob;
    uint32_t rank; /* of a prompt token (proto/token_event.h) */
    /* The most likely tokens at its position in descending order, as many as the request wants or
     * there are; the drawn token may be among them. Valid during the call. */
    const struct token_logprob *alternatives; /* [alternative_count] */
    uint32_t alternative_count;
    const float *vector; /* [vector_count] of the prompt, if the request pools; likewise */
    size_t vector_count;
    uint32_t vector_rows;  /* vectors in it: 1, or one for each token of the prompt */
    uint32_t draft_tokens; /* drafted for the step that drew it, if it is the step's first token */
    bool is_drafted;       /* it equals its draft */
    int64_t now_us;        /* monotonic: when it arrived */
    int64_t scheduled_us;  /* monotonic: when the worker began with the prompt; 0: not known */
};

/* How far a prompt is computed. Times are monotonic. */
struct reply_progress {
    uint32_t computed_tokens; /* with those that the prefix cache had */
    uint32_t cached_tokens;
    uint32_t prompt_tokens;
    int64_t scheduled_us; /* when the worker began with it */
    int64_t now_us;
};

/* The part of a request's prompt that was not computed for it. */
struct cached_prompt {
    uint32_t tokens; /* found in the prefix cache */
    uint32_t images; /* not encoded: their tokens were cached, or their features were cached or
                        being encoded for another request */
};

#endif
