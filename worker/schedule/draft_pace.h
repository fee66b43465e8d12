/*
 * Learns what drafted rows cost and how often drafts are accepted, from the steps that were run.
 *
 * Steps are measured by their number of rows if all rows belong to decoding streams. Drafts are
 * measured by their class (worker/draft/drafter.h). If steps with drafts have lost time against steps
 * without them for eight steps, drafting pauses.
 *
 * The figures affect only timing, never tokens.
 */
#ifndef SHOAL_WORKER_SCHEDULE_DRAFT_PACE_H
#define SHOAL_WORKER_SCHEDULE_DRAFT_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/draft/drafter.h"

/* Rows of a step with drafts, at most; larger steps gain nothing from more rows. */
#define DRAFT_PACE_ROWS   96u
#define DRAFT_PACE_LOSING 8u /* steps with drafts that may lose time together before a pause */

/* Zeroed: nothing is measured. */
struct draft_pace {
    double step_us[DRAFT_PACE_ROWS + 1]; /* by rows; 0: not measured */
    double judged[DRAFT_CLASSES];        /* proposed tokens that a draw was compared with; fades */
    double accepted[DRAFT_CLASSES];
    double lost_us; /* time lost to drafts since they were last even with plain steps; >= 0 */
    uint32_t losing_steps; /* steps with drafts since then */
    uint32_t pause_steps;  /* left without drafts */
    uint32_t next_pause;   /* length of the next pause; 0: the shortest */
};

/* A finished step of decoding streams alone, without encoding. */
struct draft_step {
    uint32_t streams;
    uint32_t rows; /* streams and drafted rows */
    uint32_t generated_tokens;
    double time_us;
};
void draft_pace_note_step(struct draft_pace *pace, const struct draft_step *step);
/* A draw was compared with a proposed token of the class; the drafts before it were accepted. */
void draft_pace_note_draft(struct draft_pace *pace, uint8_t class, bool accepted);

bool draft_pace_is_paused(const struct draft_pace *pace);
/* Expected time of a step of so many rows, 1..DRAFT_PACE_ROWS; 0: nothing is measured. */
double draft_pace_step_us(const struct draft_pace *pace, uint32_t rows);
/* Share of the drafts of a class that are accepted. */
double draft_pace_acceptance(const struct draft_pace *pace, uint8_t class);

#endif
