/*
 * A fixed chunk size is a guess about the machine: 512 rows take a small model a blink and a large
 * one on a few cores half a minute, during which streams stand still, cancels wait and the worker
 * shows no heartbeat. So the size of prompt chunks follows the time that rows have taken, as a
 * moving average over about four steps.
 *
 * Encoding a picture is cut into stages instead, whose price is learned apart: patches are other
 * work than rows. A stream must not notice it, so its share is one of what steps last without.
 *
 * The prompt that shows the picture comes behind its encoding, and at the same pace: a reader of
 * another stream cannot tell the two apart, and the prompt's own reader has waited for the tower
 * already.
 *
 * Before anything is measured a chunk is small. Refuses to go below a block of rows: smaller chunks
 * would read the weights too often to gain anything. Behind a picture a quarter of one will do:
 * where reading the weights is what a step takes, more fit anyway.
 */
#include "worker/schedule/step_pace.h"

#include "worker/cache/kv_layout.h"

#define MIXED_STEP_US   100000.0 /* a stream's pause that readers hardly notice */
#define LONE_STEP_US    500000.0 /* how late a cancel or a heartbeat may be */
#define UNMEASURED_ROWS 64u
#define SHOWN_ROWS      (KV_BLOCK_TOKENS / 4) /* of a prompt with pictures, at least */
#define ROWS_TO_LEARN   16u  /* fewer prompt rows measure the weights' bandwidth, not the rows */
#define WEIGHT_OF_NEW   0.25 /* of a new measurement in the average */
#define STREAM_SHARE    0.4  /* of a quiet step: what encoding may add to it, as stages differ */
#define LEAST_SHARE     0.1  /* of a step with patches that counts as theirs, whatever rows take */
#define MOST_PATCH_WORK (1ull << 40)

static void average(double *value, double measured)
{
    *value = *value > 0.0 ? *value + WEIGHT_OF_NEW * (measured - *value) : measured;
}

/* A brief step that was interrupted can take ten times as long, which says nothing about the next.
 * What lasts is followed all the same: by a quarter a step. */
static void note_stream(struct step_pace *pace, double time_us)
{
    double most_us = 2.0 * pace->stream_us;
    average(&pace->stream_us, pace->stream_us > 0.0 && time_us > most_us ? most_us : time_us);
}

/* What is left of the step's time when its rows took what such rows take. */
static void note_patches(struct step_pace *pace, const struct step_cost *cost)
{
    double time_us = (double)cost->time_us;
    double rows_us = cost->decode_rows > 0 ? pace->stream_us : 0.0;
    if (cost->prompt_rows > 0) {
        if (pace->row_us <= 0.0)
            return;
        rows_us = pace->row_us * ((double)cost->prompt_rows + (double)cost->decode_rows);
    }
    double left_us = time_us - rows_us;
    if (left_us < LEAST_SHARE * time_us)
        left_us = LEAST_SHARE * time_us;
    average(&pace->patch_us, left_us / (double)cost->patch_work);
}

void step_pace_note(struct step_pace *pace, const struct step_cost *cost)
{
    if (cost->patch_work > 0) {
        note_patches(pace, cost);
        return;
    }
    if (cost->prompt_rows == 0 && cost->decode_rows > 0)
        note_stream(pace, (double)cost->time_us);
    if (cost->prompt_rows < ROWS_TO_LEARN)
        return;
    double rows = (double)cost->prompt_rows + (double)cost->decode_rows;
    average(&pace->row_us, (double)cost->time_us / rows);
}

static uint32_t rows_within(const struct step_pace *pace, double step_us, uint32_t least,
                            uint32_t most)
{
    double rows = pace->row_us > 0.0 ? step_us / pace->row_us : UNMEASURED_ROWS;
    if (rows < least)
        rows = least;
    return rows < (double)most ? (uint32_t)rows : most;
}

uint32_t step_pace_mixed_rows(const struct step_pace *pace, uint32_t most)
{
    return rows_within(pace, MIXED_STEP_US, KV_BLOCK_TOKENS, most);
}

uint32_t step_pace_lone_rows(const struct step_pace *pace, uint32_t most)
{
    return rows_within(pace, LONE_STEP_US, KV_BLOCK_TOKENS, most);
}

uint32_t step_pace_shown_rows(const struct step_pace *pace, uint64_t patch_work, uint32_t most)
{
    double step_us = STREAM_SHARE * pace->stream_us;
    if (step_us > MIXED_STEP_US || pace->stream_us <= 0.0)
        step_us = MIXED_STEP_US;
    double left_us = step_us - (double)patch_work * pace->patch_us;
    if (patch_work > 0 && pace->row_us > 0.0 && left_us < SHOWN_ROWS * pace->row_us)
        return 0;
    return rows_within(pace, left_us, SHOWN_ROWS, most);
}

uint64_t step_pace_patch_work(const struct step_pace *pace, bool streams_wait)
{
    if (pace->patch_us <= 0.0)
        return 0;
    double time_us = streams_wait ? STREAM_SHARE * pace->stream_us : LONE_STEP_US;
    double work = time_us / pace->patch_us;
    return work < (double)MOST_PATCH_WORK ? (uint64_t)work : MOST_PATCH_WORK;
}
