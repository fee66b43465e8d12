/*
 * Decides from a request's deaths (of workers that computed it) whether the request causes them.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_POISON_POLICY_H
#define SHOAL_FRONTEND_SERVE_ENGINE_POISON_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* How far a request had got when its worker died. */
struct death_place {
    uint32_t generated_tokens;
    uint32_t computed_tokens; /* by the dead worker: of the prompt and of the tokens before it */
};

/* A request's history; zeroed at the start. */
struct crash_record {
    uint32_t deaths;            /* all */
    uint32_t stuck;             /* crashes in a row without a token since the previous one */
    uint32_t slow;              /* crashes in a row with few tokens since the previous one */
    uint32_t outside_stuck;     /* deaths from outside in a row at the same place */
    uint32_t outside_slow;      /* deaths from outside in a row with few tokens in between */
    uint32_t outside_alone;     /* deaths from outside while it ran alone */
    uint32_t clearings;         /* by poison_policy_clears() */
    uint32_t generated_tokens;  /* at the last crash */
    struct death_place outside; /* of the last death from outside */
};

/* A worker died while it computed the request. */
struct poison_death {
    bool outside; /* death_cause_is_outside() */
    bool alone;   /* a suspect that ran alone */
    struct death_place place;
};

enum poison_verdict {
    POISON_INNOCENT, /* continue among other requests */
    POISON_SUSPECT,  /* retry alone */
    POISON_WATCHED,  /* retry alone after poison_policy_watch_ms() without the request */
    POISON_GUILTY
};

/* `most_crashes` (>= 1) deaths without progress in between make a suspect. Pure, except for the
 * record. */
enum poison_verdict poison_policy_judge(struct crash_record *record,
                                        const struct poison_death *death, uint32_t most_crashes);

/* How long workers must survive without a POISON_WATCHED request before its next trial. Pure. */
int64_t poison_policy_watch_ms(const struct crash_record *record);

/* A worker was killed from outside that did not have this suspect. Returns true if the request is
 * no longer suspected: only deaths from outside had made it a suspect. Pure, except for the
 * record. */
bool poison_policy_clears(struct crash_record *record, uint32_t most_crashes);

/* True if a suspect has generated enough tokens alone to be acquitted. Pure. */
bool poison_policy_acquits(const struct crash_record *record, uint32_t generated_tokens);

/* Forgets the suspicion, not the number of deaths. */
void poison_policy_forget(struct crash_record *record, uint32_t generated_tokens);

#endif
