/*
 * Does this request kill workers? Judged from the crashes that it was part of.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_POISON_POLICY_H
#define SHOAL_FRONTEND_SERVE_ENGINE_POISON_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* A request's history; zeroed at first. */
struct crash_record {
    uint32_t stuck;            /* crashes in a row without a token since the one before */
    uint32_t slow;             /* crashes in a row with next to no tokens since the one before */
    uint32_t generated_tokens; /* when the last one happened */
};

/* The worker died while it computed the request, which has `generated_tokens` by now. True: it is
 * suspected, and is to be retried alone. `most_crashes` (>= 1) without a token in between make a
 * suspect. Pure but for the record. */
bool poison_policy_suspects(struct crash_record *record, uint32_t generated_tokens,
                            uint32_t most_crashes);

/* Whether a suspect that is retried alone has got far enough to be as innocent as any other. Pure.
 */
bool poison_policy_acquits(const struct crash_record *record, uint32_t generated_tokens);

#endif
