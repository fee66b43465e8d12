/*
 * A fixed chunk size is a guess about the machine: 512 rows take a small model a blink and a large
 * one on a few cores half a minute, during which streams stand still, cancels wait and the worker
 * shows no heartbeat. So the size of prompt chunks follows the time that rows have taken, as a
 * moving average over about four steps.
 *
 * Encoding a picture is cut into stages instead, whose price is learned apart: patches are other
 * work than rows. A stream must not notice it, so its share is one of what steps last without.
 *
 * The prompt that shows the picture comes behind its encoding, and a reader of another stream
 * cannot tell the two apart: what its rows add to a step has a share, too, and its own reader, who
 * has waited for the tower already, waits somewhat longer. How much rows add is no line: where
 * reading weights or handing out work is what a step takes, dozens may add as much as two. So it is
 * learned by size. A size that adds too much is tried again at times, as what was measured fades:
 * steps change, and so do the machine's other programs.
 *
 * Before anything is measured a chunk is small. Refuses to make chunks of words smaller than a
 * block of rows: they would read the weights too often to gain anything.
 */
#include "worker/schedule/step_pace.h"

#include "worker/plan/kv_layout.h"

#define MIXED_STEP_US   100000.0 /* a stream's pause that readers hardly notice */
#define LONE_STEP_US    500000.0 /* how late a cancel or a heartbeat may be */
#define UNMEASURED_ROWS 64u
#define ROWS_TO_LEARN   16u   /* fewer prompt rows measure the weights' bandwidth, not the rows */
#define WEIGHT_OF_NEW   0.25  /* of a new measurement in the average */
#define STREAM_SHARE    0.4   /* of a quiet step: what encoding may add to it, as stages differ */
#define SHOWN_SHARE     0.6   /* of one: what rows of a prompt with pictures may add to it */
#define LEAST_ADDED     0.01  /* of one: counts as added in any case */
#define FADES           0.001 /* of what a size adds, for each step of the size below */
#define LEAST_FALL      0.8   /* of a price in one step: parts done before it began look free */
#define LEAST_SHARE     0.1   /* of a step with patches that counts as theirs, whatever rows take */
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

/* What is left of the step's time when its rows took what such rows take, where that is not known.
 */
static void note_patches(struct step_pace *pace, const struct step_cost *cost)
{
    double time_us = (double)cost->time_us;
    if (cost->patch_us > 0) {
        average(&pace->patch_us, (double)cost->patch_us / (double)cost->patch_work);
        return;
    }
    double rows_us = cost->decode_rows > 0 ? pace->stream_us : 0.0;
    if (cost->prompt_rows > 0) {
        if (pace->row_us <= 0.0)
            return;
        rows_us = pace->row_us * ((double)cost->prompt_rows + (double)cost->decode_rows);
    }
    double left_us = time_us - rows_us;
    if (left_us < LEAST_SHARE * time_us)
        left_us = LEAST_SHARE * time_us;
    double before_us = pace->patch_us;
    average(&pace->patch_us, left_us / (double)cost->patch_work);
    if (pace->patch_us < LEAST_FALL * before_us)
        pace->patch_us = LEAST_FALL * before_us;
}

/* As with streams alone, a step that was interrupted counts for no more than one twice as long. */
static void note_added(struct step_pace *pace, uint32_t prompt_rows, double time_us)
{
    uint32_t size = 0;
    if (pace->stream_us <= 0.0)
        return;
    while (size + 1 < STEP_PACE_SIZES && prompt_rows >> (size + 1) > 0)
        size++;
    double *known_us = &pace->added_us[size];
    double added_us = time_us - pace->stream_us;
    double most_us = 2.0 * *known_us > pace->stream_us ? 2.0 * *known_us : pace->stream_us;
    if (*known_us > 0.0 && added_us > most_us)
        added_us = most_us;
    if (added_us < LEAST_ADDED * pace->stream_us)
        added_us = LEAST_ADDED * pace->stream_us;
    average(known_us, added_us);
    if (size + 1 < STEP_PACE_SIZES)
        pace->added_us[size + 1] -= FADES * pace->added_us[size + 1];
}

void step_pace_note(struct step_pace *pace, const struct step_cost *cost)
{
    if (cost->patch_work > 0) {
        note_patches(pace, cost);
        if (cost->patch_us == 0)
            return;
    }
    double time_us =
        cost->time_us > cost->patch_us ? (double)(cost->time_us - cost->patch_us) : 0.0;
    if (cost->prompt_rows == 0 && cost->decode_rows > 0)
        note_stream(pace, time_us);
    if (cost->prompt_rows > 0 && cost->decode_rows > 0)
        note_added(pace, cost->prompt_rows, time_us);
    if (cost->prompt_rows < ROWS_TO_LEARN)
        return;
    double rows = (double)cost->prompt_rows + (double)cost->decode_rows;
    average(&pace->row_us, time_us / rows);
}

static uint32_t rows_within(const struct step_pace *pace, double step_us, uint32_t most)
{
    double rows = pace->row_us > 0.0 ? step_us / pace->row_us : UNMEASURED_ROWS;
    if (rows < KV_BLOCK_TOKENS)
        rows = KV_BLOCK_TOKENS;
    return rows < (double)most ? (uint32_t)rows : most;
}

uint32_t step_pace_mixed_rows(const struct step_pace *pace, uint32_t most)
{
    return rows_within(pace, MIXED_STEP_US, most);
}

uint32_t step_pace_lone_rows(const struct step_pace *pace, uint32_t most)
{
    return rows_within(pace, LONE_STEP_US, most);
}

uint32_t step_pace_shown_rows(const struct step_pace *pace, uint32_t most)
{
    double most_us = SHOWN_SHARE * pace->stream_us;
    if (most_us <= 0.0)
        return step_pace_mixed_rows(pace, most);
    if (most_us > MIXED_STEP_US)
        most_us = MIXED_STEP_US;
    uint32_t rows = 1;
    double added_us = pace->added_us[0];
    for (uint32_t size = 1; size < STEP_PACE_SIZES; size++) {
        added_us = pace->added_us[size] > 0.0 ? pace->added_us[size] : 2.0 * added_us;
        if (added_us <= 0.0 || added_us > most_us)
            break;
        rows = 1u << size;
    }
    return rows < most ? rows : most;
}

uint64_t step_pace_patch_work(const struct step_pace *pace, bool streams_wait)
{
    if (pace->patch_us <= 0.0)
        return 0;
    double time_us = streams_wait ? STREAM_SHARE * pace->stream_us : LONE_STEP_US;
    double work = time_us / pace->patch_us;
    return work < (double)MOST_PATCH_WORK ? (uint64_t)work : MOST_PATCH_WORK;
}
