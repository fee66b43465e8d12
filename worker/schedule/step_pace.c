/*
 * A fixed chunk size does not suit all machines: 512 rows take milliseconds with a small model and
 * half a minute with a large one on a few cores, while streams, cancels and the heartbeat wait. The
 * size of prompt chunks therefore follows the measured time of rows, a moving average over about
 * four steps. Beside streams, chunk_pace.c chooses it.
 *
 * Encoding is cut into stages, whose price is learned separately because patches are different
 * work. Its share is a fraction of a step's time without encoding, so that streams are hardly
 * affected.
 *
 * The rows of a prompt with images follow its encoding, and to other streams both are one delay, so
 * the time that these rows add to a step is limited to a share too. That time is not linear in the
 * rows: if a step is bound by reading weights or by distributing work, dozens of rows may add as
 * much as two. It is therefore learned for each size class. Measurements of larger classes fade
 * slowly, so that a class that was too slow is tried again: steps change, and so does the machine's
 * other load.
 *
 * Until something is measured, a chunk is small. A chunk of text is at least one block of rows,
 * because smaller ones would read the weights too often.
 */
#include "worker/schedule/step_pace.h"

#include "worker/plan/kv_layout.h"

#define IMAGE_STEP_US        100000.0 /* pause of a stream that readers hardly notice */
#define PREFILL_ONLY_STEP_US 500000.0 /* maximum delay of a cancel or a heartbeat */
#define UNMEASURED_ROWS      64u
#define ROWS_TO_LEARN        16u  /* fewer prompt rows measure memory bandwidth, not rows */
#define NEW_SAMPLE_WEIGHT    0.25 /* weight of a new measurement in the average */
#define STREAM_SHARE         0.4  /* share of stream_us that encoding may add, as stages differ */
#define IMAGE_ROW_SHARE      0.6  /* share of stream_us that rows of prompts with images may add */
#define MIN_ADDED_SHARE      0.01 /* share of stream_us that is recorded at least */
#define FADE_PER_STEP        0.001 /* share of a class's time lost with each step of the class below */
/* minimum ratio of a price to the previous one, since parts finished before the step look free */
#define MIN_PRICE_RATIO 0.8
#define MIN_PATCH_SHARE 0.1 /* minimum share of a step's time attributed to its patches */
#define MOST_PATCH_WORK (1ull << 40)

static void average(double *value, double measured)
{
    *value = *value > 0.0 ? *value + NEW_SAMPLE_WEIGHT * (measured - *value) : measured;
}

/* Attributes to the patches the step's time less the known price of its rows, if their time was not
 * measured. */
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
    if (left_us < MIN_PATCH_SHARE * time_us)
        left_us = MIN_PATCH_SHARE * time_us;
    double before_us = pace->patch_us;
    average(&pace->patch_us, left_us / (double)cost->patch_work);
    if (pace->patch_us < MIN_PRICE_RATIO * before_us)
        pace->patch_us = MIN_PRICE_RATIO * before_us;
}

/* Counts an interrupted step as at most one that took twice as long, as step_pace_note() does. */
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
    if (added_us < MIN_ADDED_SHARE * pace->stream_us)
        added_us = MIN_ADDED_SHARE * pace->stream_us;
    average(known_us, added_us);
    if (size + 1 < STEP_PACE_SIZES)
        pace->added_us[size + 1] -= FADE_PER_STEP * pace->added_us[size + 1];
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
    chunk_pace_note(&pace->chunks, cost->prompt_rows, cost->decode_rows, time_us);
    if (cost->prompt_rows == 0 && cost->decode_rows > 0) {
        /* A short step that was interrupted can take ten times as long: it counts as twice the
         * average. A lasting change is still followed, by a quarter each step. */
        double most_us = 2.0 * pace->stream_us;
        average(&pace->stream_us, pace->stream_us > 0.0 && time_us > most_us ? most_us : time_us);
    }
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

uint32_t step_pace_prefill_only_rows(const struct step_pace *pace, uint32_t most)
{
    return rows_within(pace, PREFILL_ONLY_STEP_US, most);
}

uint32_t step_pace_image_rows(const struct step_pace *pace, uint32_t most)
{
    double most_us = IMAGE_ROW_SHARE * pace->stream_us;
    if (most_us <= 0.0)
        return most;
    if (most_us > IMAGE_STEP_US)
        most_us = IMAGE_STEP_US;
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
    double time_us = streams_wait ? STREAM_SHARE * pace->stream_us : PREFILL_ONLY_STEP_US;
    double work = time_us / pace->patch_us;
    return work < (double)MOST_PATCH_WORK ? (uint64_t)work : MOST_PATCH_WORK;
}
