/*
 * How many prompt rows may a step have, and how much of a picture may be encoded beside it, so that
 * it does not last too long on this machine with this model? Learned from the steps that were run.
 *
 * Chunk boundaries change no number that a backend computes, so what is measured here moves only
 * time, never tokens.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_PACE_H
#define SHOAL_WORKER_SCHEDULE_STEP_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define STEP_PACE_SIZES 12u /* of chunks, by powers of two */

/* 0 = nothing measured yet. */
struct step_pace {
    double row_us;    /* of one row in steps that had a prompt chunk */
    double stream_us; /* of steps that only moved streams */
    double patch_us;  /* of one patch row in one stage of a vision tower */
    /* What 2^i rows of prompts, and less than twice as many, add to a step that moves streams. */
    double added_us[STEP_PACE_SIZES];
};

struct step_cost {
    uint32_t prompt_rows;
    uint32_t decode_rows;
    uint64_t patch_work; /* patch rows times stages that were launched with the step or alone */
    uint64_t patch_us;   /* what of the time pictures took; 0 = nobody knows */
    uint64_t time_us;
};
/* Tells of a finished step; steps with few prompt rows teach nothing about these, and steps whose
 * patches took nobody knows how long about patches alone. */
void step_pace_note(struct step_pace *pace, const struct step_cost *cost);

/* Prompt rows, at most `most`, that are expected to take no longer than a step should: beside
 * streams that wait for their next token, or alone. At least one block's worth, or `most`. */
uint32_t step_pace_mixed_rows(const struct step_pace *pace, uint32_t most);
uint32_t step_pace_lone_rows(const struct step_pace *pace, uint32_t most);
/* Beside streams, of prompts with pictures: as many as are known to add no more than such rows may,
 * or twice as many where what these add is not known and twice what those add would do; at least
 * one. */
uint32_t step_pace_shown_rows(const struct step_pace *pace, uint32_t most);

/* Patch rows times stages that should be launched beside the next step; 0 when it cannot be said or
 * less than a patch fits: the least that can be launched, then. Beside streams that wait, so much
 * that a step lasts less than twice as long as without. */
uint64_t step_pace_patch_work(const struct step_pace *pace, bool streams_wait);

#endif
