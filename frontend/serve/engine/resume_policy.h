/*
 * How long a request whose worker died waits for the next worker, which takes over the KV cache, before another worker may
 * compute all of it again.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_RESUME_POLICY_H
#define SHOAL_FRONTEND_SERVE_ENGINE_RESUME_POLICY_H

#include <stdint.h>

struct resume_facts {
    uint32_t held_tokens;     /* of the prompt and the answer, computed by the dead worker */
    uint32_t computed_tokens; /* of the prompt: in `spent_us`, without those of the prefix cache */
    int64_t spent_us;         /* from the start of the prompt to the first token, or to the death */
};

#define RESUME_LEAST_TOKENS 16 /* a block: fewer are not kept */
#define RESUME_LEAST_MS     100
#define RESUME_MOST_MS      5000

/* 0: not at all. */
int64_t resume_policy_wait_ms(const struct resume_facts *facts);

#endif
