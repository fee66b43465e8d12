/*
 * Learns what drafted rows cost and how often drafts are accepted, from the steps that were run.
 *
 * Steps are measured by their number of rows if all rows belong to decoding streams, each with the average time of the
 * host between steps, which drafts save too. So are the
 * rounds of a draft model, each of which proposes one more token of several streams. Drafts are
 * measured by their class (worker/draft/drafter.h). If steps with drafts have lost time against steps
 * without them for eight steps, drafting pauses; steps with rounds of a draft model have a pause of
 * their own. After its pause a draft model has DRAFT_PACE_PROBES short trials.
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
#define DRAFT_PACE_PROBES 4u

struct draft_losses {
    double lost_us; /* time lost to drafts since they were last even with plain steps; >= 0 */
    uint32_t losing_steps; /* steps with drafts since then */
    uint32_t pause_steps;  /* left without drafts */
    uint32_t next_pause;   /* length of the next pause; 0: the shortest */
};

/* Zeroed: nothing is measured. */
struct draft_pace {
    double step_us[DRAFT_PACE_ROWS + 1];  /* by rows; 0: not measured */
    double round_us[DRAFT_PACE_ROWS + 1]; /* of a draft model, likewise */
    double gap_us;                        /* of the host between steps, on average */
    double judged[DRAFT_CLASSES];         /* proposed tokens that a draw was compared with; fades */
    double accepted[DRAFT_CLASSES];
    struct draft_losses text;  /* of steps without rounds */
    struct draft_losses model; /* of steps with rounds */
    uint32_t probes;           /* left, of the draft model after a pause */
};

/* A finished step of decoding streams alone, without encoding. */
struct draft_step {
    uint32_t streams;
    uint32_t rows; /* streams and drafted rows */
    uint32_t generated_tokens;
    double time_us;
    double gap_us;    /* of the host before it, without rounds: events, plans, waits */
    double rounds_us; /* of the draft model for this step; 0: there were none */
};
void draft_pace_note_step(struct draft_pace *pace, const struct draft_step *step);
/* A draw was compared with a proposed token of the class; the drafts before it were accepted. */
void draft_pace_note_draft(struct draft_pace *pace, uint8_t class, bool accepted);

/* A round of the draft model took so long. Returns the time that it counts as. */
double draft_pace_note_round(struct draft_pace *pace, uint32_t rows, double time_us);
/* The draft model would lose time: begins its pause. */
void draft_pace_rest(struct draft_pace *pace);

/* Drafts without a draft model. */
bool draft_pace_is_paused(const struct draft_pace *pace);
bool draft_pace_model_is_paused(const struct draft_pace *pace);
/* Expected time of a step, or of a round, of so many rows, 1..DRAFT_PACE_ROWS; 0: nothing is
 * measured. */
double draft_pace_step_us(const struct draft_pace *pace, uint32_t rows);
double draft_pace_round_us(const struct draft_pace *pace, uint32_t rows);
/* Share of the drafts of a class that are accepted. */
double draft_pace_acceptance(const struct draft_pace *pace, uint8_t class);
/* Share of the tokens of the draft model that are accepted, of all its classes. */
double draft_pace_model_acceptance(const struct draft_pace *pace);

#endif
