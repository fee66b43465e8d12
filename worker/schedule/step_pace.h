/*
 * Learns from the steps that were run how many prompt rows a step may have, and how much of an
 * image may be encoded beside it, so that a step does not take too long with this model on this
 * machine.
 *
 * Chunk boundaries change no number that a backend computes, so the measurements affect only
 * timing, never tokens.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_PACE_H
#define SHOAL_WORKER_SCHEDULE_STEP_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/schedule/chunk_pace.h"

#define STEP_PACE_SIZES 12u /* size classes of chunks, by powers of two */

/* 0 = not measured yet. */
struct step_pace {
    double row_us;    /* of one row, in steps with a prompt chunk */
    double stream_us; /* of a step with only decoding streams */
    double patch_us;  /* of one patch row in one stage of a vision tower */
    /* Time that 2^i to 2^(i+1) - 1 prompt rows add to a step with decoding streams. */
    double added_us[STEP_PACE_SIZES];
    struct chunk_pace chunks; /* prices of text rows beside streams */
};

struct step_cost {
    uint32_t prompt_rows;
    uint32_t decode_rows;
    uint64_t patch_work; /* patch rows times stages launched with the step or without one */
    uint64_t patch_us;   /* part of time_us that encoding took; 0 = unknown */
    uint64_t time_us;
};
/* Records a finished step. Steps with few prompt rows do not update the price of a row; steps whose
 * encoding time is unknown update only the price of patches. */
void step_pace_note(struct step_pace *pace, const struct step_cost *cost);

/* Maximum number of prompt rows, up to `most`, that are expected to take no longer than a step
 * without waiting streams should (chunk_pace_rows() is for steps with them). At least one block, or
 * `most`. */
uint32_t step_pace_prefill_only_rows(const struct step_pace *pace, uint32_t most);
/* Maximum number of rows of prompts with images beside streams: the largest size class whose rows
 * are known to add little enough time, or twice that size if the next class is not measured and
 * twice the time would be allowed. At least one; `most` if nothing is measured. */
uint32_t step_pace_image_rows(const struct step_pace *pace, uint32_t most);

/* Patch rows times stages to launch beside the next step. 0: nothing measured or less than one
 * patch, so the caller launches the minimum. Beside waiting streams, a step takes less than twice
 * as long as without encoding. */
uint64_t step_pace_patch_work(const struct step_pace *pace, bool streams_wait);

#endif
