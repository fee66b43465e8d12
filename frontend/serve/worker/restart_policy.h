/*
 * How long does the successor of a dead worker wait?
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_RESTART_POLICY_H
#define SHOAL_FRONTEND_SERVE_WORKER_RESTART_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed at first. */
struct restart_record {
    uint32_t failed_starts; /* deaths in a row of workers that had not made progress */
    bool progressed;        /* the present one has */
};

/* The present worker has told a token. */
void restart_policy_note_progress(struct restart_record *record);
/* It has died, or could not even be started. */
void restart_policy_note_death(struct restart_record *record);
/* From then on; 0: at once. Pure. */
int restart_policy_delay_ms(const struct restart_record *record);

#endif
