/*
 * Decides from a request's crashes whether it crashes workers.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_POISON_POLICY_H
#define SHOAL_FRONTEND_SERVE_ENGINE_POISON_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* A request's history; zeroed at the start. */
struct crash_record {
    uint32_t stuck;            /* crashes in a row without a token since the previous one */
    uint32_t slow;             /* crashes in a row with few tokens since the previous one */
    uint32_t generated_tokens; /* at the last crash */
};

/* The worker died while it computed the request, which has `generated_tokens` now. True: it is
 * suspected and will be retried alone. `most_crashes` (>= 1) without a token in between make a
 * suspect. Pure, except for the record. */
bool poison_policy_suspects(struct crash_record *record, uint32_t generated_tokens,
                            uint32_t most_crashes);

/* True if a suspect has generated enough tokens alone to be acquitted. Pure. */
bool poison_policy_acquits(const struct crash_record *record, uint32_t generated_tokens);

#endif
