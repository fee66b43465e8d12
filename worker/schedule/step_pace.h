/*
 * How many prompt rows may a step have so that it does not last too long on this machine with this
 * model? Learned from the steps that were run.
 *
 * Chunk boundaries change no number that a backend computes, so what is measured here moves only
 * time, never tokens.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_PACE_H
#define SHOAL_WORKER_SCHEDULE_STEP_PACE_H

#include <stdint.h>

struct step_pace {
    double row_us; /* of one row in steps that had a prompt chunk; 0 = nothing measured yet */
};

/* Tells of a finished step; steps with few prompt rows teach nothing. */
void step_pace_note(struct step_pace *pace, uint32_t prompt_rows, uint32_t decode_rows,
                    uint64_t step_time_us);

/* Prompt rows, at most `most`, that are expected to take no longer than a step should: beside
 * streams that wait for their next token, or alone. At least one block's worth, or `most`. */
uint32_t step_pace_mixed_rows(const struct step_pace *pace, uint32_t most);
uint32_t step_pace_lone_rows(const struct step_pace *pace, uint32_t most);

#endif
