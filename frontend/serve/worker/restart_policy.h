/*
 * How long the next worker waits after a death, and when no further worker is started.
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_RESTART_POLICY_H
#define SHOAL_FRONTEND_SERVE_WORKER_RESTART_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed before the first start. */
struct restart_record {
    uint32_t failed_starts; /* deaths in a row without a token; those from outside do not count */
    uint32_t killed_starts; /* deaths from outside in a row before the worker was ready */
    bool ready;             /* the current worker is */
    bool progressed;        /* the current worker has generated a token */
};

/* The current worker is ready. */
void restart_policy_note_ready(struct restart_record *record);
/* The current worker has generated a token. */
void restart_policy_note_progress(struct restart_record *record);
/* The current worker died or could not be started. `outside`: death_cause_is_outside(). */
void restart_policy_note_death(struct restart_record *record, bool outside);
/* Delay from the last death; 0: at once. Pure. */
int restart_policy_delay_ms(const struct restart_record *record);
/* True if the first worker failed so often that no further one is started. Only before any worker
 * was ready. Pure. */
bool restart_policy_gives_up(const struct restart_record *record);
/* True if so many starts failed that requests no longer wait for the next one. Pure. */
bool restart_policy_is_hopeless(const struct restart_record *record);

#endif
