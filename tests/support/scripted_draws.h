/*
 * Backends whose steps are computed and whose draws are replaced, so that speculative decoding can be measured
 * with random weights: the target draws a text that is a function of request and position alone, and a drafter
 * proposes its next tokens with given shares of right ones.
 */
#ifndef SHOAL_TESTS_SUPPORT_SCRIPTED_DRAWS_H
#define SHOAL_TESTS_SUPPORT_SCRIPTED_DRAWS_H

#include "worker/backend/host/backend.h"
#include "worker/schedule/worker_engine.h"

#define SCRIPTED_SHARES_MAX 15u

enum scripted_role {
    SCRIPTED_TARGET,
    SCRIPTED_LAYER, /* a row has the token after its position and proposes the one after that */
    SCRIPTED_BLOCK  /* a row proposes the token at its position */
};

struct scripted_draws {
    const struct worker_engine *engine; /* set before the first step */
    uint32_t vocab_tokens;
    uint32_t group; /* cache group by whose first block a sequence is found; no prefixes are kept */
    /* shares[i]: of the drafts at place i whose predecessors are right, so many are right; places beyond
     * share_count are like the last one */
    double shares[SCRIPTED_SHARES_MAX];
    uint32_t share_count;
};

/* The token at this place, prompt included, of the request in this slot. */
uint32_t scripted_draws_token(const struct scripted_draws *script, uint32_t slot, uint32_t place);
/* Computes as `inner`, which is loaded; both are the caller's, and so is what destroy() does not end. A
 * drafter's block tables are those of the target's group. */
struct backend *scripted_draws_wrap(const struct scripted_draws *script, enum scripted_role role,
                                    struct backend *inner);

#endif
