/*
 * Learns what prompt rows cost beside decoding streams, and chooses how many of them the next step
 * computes. Costs are kept by the number of rows of the whole step, because products take all rows
 * of a step together and their time grows in stairs.
 *
 * The choice affects only timing, never tokens.
 */
#ifndef SHOAL_WORKER_SCHEDULE_CHUNK_PACE_H
#define SHOAL_WORKER_SCHEDULE_CHUNK_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define CHUNK_PACE_CLASSES 20u /* by rows of the step: 1, 2, 4 ... 64, 96, 128, 192 ... 4,096 */

/* 0 = not measured yet. */
struct chunk_pace {
    double added_us[CHUNK_PACE_CLASSES];    /* by a prompt row, in steps with decoding streams */
    double alone_us[CHUNK_PACE_CLASSES];    /* of a row, in steps without them */
    double decode_us[CHUNK_PACE_CLASSES];   /* of a step of decoding streams alone, */
    double decode_rows[CHUNK_PACE_CLASSES]; /* and how many streams it had */
    double answer_tokens;                   /* of an answer that ended by itself, of late */
    uint32_t mixed_steps;                   /* noted */
};

/* Records a finished step without encoding. */
void chunk_pace_note(struct chunk_pace *pace, uint32_t prompt_rows, uint32_t decode_rows,
                     double time_us);

/* Records the length of an answer that ended by itself, not at its limit or because it was left. */
void chunk_pace_note_answer(struct chunk_pace *pace, uint32_t tokens);
/* Tokens that an answer of at most `limit` is expected to have. */
uint32_t chunk_pace_expected_draws(const struct chunk_pace *pace, uint32_t limit);

struct chunk_request {
    uint32_t decode_rows;   /* of the step */
    uint32_t backlog_rows;  /* prompt rows of all running sequences that are not computed yet */
    uint32_t waiting;       /* sequences that they are of */
    uint64_t prompt_tokens; /* of all running sequences, computed or not, */
    uint64_t draws;         /* and the tokens that they are expected to draw in all */
    uint32_t most_rows;     /* prompt rows of the step, at most */
    bool fixed;             /* most_rows are wanted, as far as the target allows */
    double target_us;       /* time of the step, at most; prompt rows may take half of it anyway */
};
/*
 * Prompt rows of the next step, 1..most_rows (0 if that is 0). Among the sizes whose expected time is within the
 * target, does not stall the streams (chunk_pace.c) and which compute the backlog within eight steps, the smallest one whose price of a row is
 * within 10 % of the lowest price. If no size within the target computes the backlog so soon, sizes from half of
 * the largest are compared. At least one block of rows, whatever the target.
 */
uint32_t chunk_pace_rows(const struct chunk_pace *pace, const struct chunk_request *request);

#endif
