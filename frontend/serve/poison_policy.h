/*
 * Does this request kill workers? Judged from the crashes that it was part of.
 */
#ifndef SHOAL_FRONTEND_SERVE_POISON_POLICY_H
#define SHOAL_FRONTEND_SERVE_POISON_POLICY_H

#include <stdint.h>

enum poison_verdict {
    POISON_NEIGHBOUR, /* retry it among others */
    POISON_SUSPECT,   /* retry it alone */
    POISON_GUILTY     /* end it */
};

/* A request's history; zeroed at first. */
struct crash_record {
    uint32_t stuck;            /* crashes in a row without a token since the one before */
    uint32_t slow;             /* crashes in a row with next to no tokens since the one before */
    uint32_t generated_tokens; /* when the last one happened */
};

/* The worker died while it computed the request, which has `generated_tokens` by now.
 * `most_crashes` (>= 1) without a token in between make it a suspect. Pure but for the record. */
enum poison_verdict poison_policy_judge(struct crash_record *record, uint32_t generated_tokens,
                                        uint32_t most_crashes);

#endif
