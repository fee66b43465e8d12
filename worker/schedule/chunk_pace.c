/*
 * Two goals conflict: large chunks read the weights once for many rows, and small ones delay
 * streams less. The price of a row (what a step took beyond its streams, divided by its prompt
 * rows) decides: a larger chunk is only taken if its rows are cheaper, or if prompts would
 * otherwise wait for many steps while the streams that they will become are missing from each of
 * those.
 *
 * Prompts do not stall streams: while one sequence or at most WAITING_SHARE of them are prompts, a step takes at most
 * STALL_RATIO times one in which all running sequences decode, unless rows cost much more in such steps. With more
 * prompts, in a load that is mostly decoding (LIGHT_PROMPTS rows a token), it takes at most WAVE_RATIO times as long, and
 * longer for more than CALM_STREAMS, whose tokens a large chunk delays together. A server that is full of prompts
 * computes them in the cheapest chunks within the target.
 *
 * Classes end at full tiles of the matrix units (multiples of 32, 64, 128 ... rows), and a chunk
 * fills a step up to the end of a class. A step that ends far before its class does pays for rows
 * that it does not have, so it has less weight in the price.
 *
 * Prices that are not measured again fade slowly, so that a size which was slow once is tried
 * again. A class that was never measured has the price of steps without streams, or that of the
 * next smaller or larger class, whichever is lower.
 */
#include "worker/schedule/chunk_pace.h"

#include <math.h>

#include "proto/limits.h"
#include "worker/plan/kv_layout.h"

#define UNMEASURED_ROWS   64u
#define ROWS_TO_LEARN     16u    /* fewer prompt rows measure the interruptions of a step */
#define NEW_SAMPLE_WEIGHT 0.25   /* of a new measurement in the average */
#define OUTLIER_RATIO     2.0    /* a measurement counts as at most so many times the average */
#define MIN_ADDED_SHARE   0.01   /* of a step's time that its prompt rows take at least */
#define FADE_PER_STEP     0.0003 /* share of the other prices lost with each measured one, */
#define FADED_SHARE       0.9    /* down to this share of that one */
#define SPREAD_STEPS      8u     /* steps that may compute what waits now */
#define PRICE_TOLERANCE   1.10
#define STALL_RATIO       2.8
#define WAVE_RATIO        4.0
#define STALL_PRICE       1.3 /* of a row in such steps, to the lowest one */
#define WAVE_PRICE        1.6
#define NEARLY            0.8 /* of a number of streams, measured: enough to know the time of their steps */
#define WAITING_SHARE     0.1
#define LIGHT_PROMPTS     4.0
#define CALM_STREAMS      64u
#define NEW_ANSWER_WEIGHT 0.05
#define FIRST_STEPS       200u /* with prompts beside streams. In these chunks have */
#define UNKNOWN_ROWS      6u /* rows for each sequence, if the time of their steps is not measured, */
#define LEAST_UNKNOWN     256u /* but so many rows at least */

static const uint32_t class_ends[CHUNK_PACE_CLASSES] = {
    1,   2,   4,   8,   16,   32,   64,   96,   128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 2560, 3072, LIMIT_STEP_ROWS};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t class_of(uint32_t rows)
{
    uint32_t class = 0;
    while (class + 1 < CHUNK_PACE_CLASSES && class_ends[class] < rows)
        class ++;
    return class;
}

/* Part of its class that a step of so many rows fills. */
static double filled(uint32_t class, uint32_t rows)
{
    uint32_t begin = class > 0 ? class_ends[class - 1] : 0;
    return rows >= class_ends[class] ? 1.0
                                     : (double)(rows - begin) / (double)(class_ends[class] - begin);
}

/* `weight`: of a measurement, as part of the usual one. */
static void average(double *value, double measured, double weight)
{
    if (*value > 0.0 && measured > OUTLIER_RATIO * *value)
        measured = OUTLIER_RATIO * *value;
    *value = *value > 0.0 ? *value + weight * NEW_SAMPLE_WEIGHT * (measured - *value) : measured;
}

/* Expected time of a step of decoding streams alone: between the nearest measured numbers of streams
 * below and above, or that of the nearest one. 0: nothing is measured. */
static double decode_time(const struct chunk_pace *pace, uint32_t decode_rows)
{
    double below = 0.0, below_us = 0.0, above = 0.0, above_us = 0.0;
    if (decode_rows == 0)
        return 0.0;
    for (uint32_t i = 0; i < CHUNK_PACE_CLASSES && above_us <= 0.0; i++) {
        if (pace->decode_us[i] <= 0.0)
            continue;
        bool reaches = pace->decode_rows[i] >= decode_rows;
        *(reaches ? &above : &below) = pace->decode_rows[i];
        *(reaches ? &above_us : &below_us) = pace->decode_us[i];
    }
    if (below_us <= 0.0 || above_us <= 0.0)
        return below_us > 0.0 ? below_us : above_us;
    return below_us + (decode_rows - below) / (above - below) * (above_us - below_us);
}

/* Whether so many streams, or nearly so many, were measured. */
static bool knows_streams(const struct chunk_pace *pace, uint32_t streams)
{
    for (uint32_t i = 0; i < CHUNK_PACE_CLASSES; i++) {
        if (pace->decode_us[i] > 0.0 && pace->decode_rows[i] >= NEARLY * streams)
            return true;
    }
    return false;
}

static double faded(double price_us, double least_us)
{
    return price_us > least_us ? fmax(price_us - FADE_PER_STEP * price_us, least_us) : price_us;
}

/* Down to less than the price just measured, so that they are tried, but not to times that no size can have. */
static void fade_others(struct chunk_pace *pace, uint32_t class)
{
    double least_us = FADED_SHARE * pace->added_us[class];
    for (uint32_t i = 0; i < CHUNK_PACE_CLASSES; i++) {
        if (i != class)
            pace->added_us[i] = faded(pace->added_us[i], least_us);
        pace->alone_us[i] = faded(pace->alone_us[i], least_us);
    }
}

void chunk_pace_note(struct chunk_pace *pace, uint32_t prompt_rows, uint32_t decode_rows,
                     double time_us)
{
    if (prompt_rows == 0 && decode_rows > 0) {
        uint32_t streams = class_of(decode_rows);
        average(&pace->decode_us[streams], time_us, 1.0);
        average(&pace->decode_rows[streams], decode_rows, 1.0);
    }
    if (prompt_rows < ROWS_TO_LEARN || time_us <= 0.0)
        return;
    uint32_t rows = prompt_rows + decode_rows;
    uint32_t class = class_of(rows);
    double streams_us = decode_time(pace, decode_rows);
    bool mixed = streams_us > 0.0;
    pace->mixed_steps += decode_rows > 0 && pace->mixed_steps < UINT32_MAX;
    double *price = mixed ? &pace->added_us[class] : &pace->alone_us[class];
    double added_us = time_us - streams_us;
    if (added_us < MIN_ADDED_SHARE * time_us)
        added_us = MIN_ADDED_SHARE * time_us;
    double part = filled(class, rows);
    average(price, added_us / (double)(mixed ? prompt_rows : rows), part * part);
    if (mixed)
        fade_others(pace, class);
}

void chunk_pace_note_answer(struct chunk_pace *pace, uint32_t tokens)
{
    double weight = pace->answer_tokens > 0.0 ? NEW_ANSWER_WEIGHT : 1.0;
    pace->answer_tokens += weight * (fmax(tokens, 1.0) - pace->answer_tokens);
}

uint32_t chunk_pace_expected_draws(const struct chunk_pace *pace, uint32_t limit)
{
    return pace->answer_tokens > 0.0 && pace->answer_tokens < limit ? (uint32_t)pace->answer_tokens
                                                                    : limit;
}

static double known_price(const struct chunk_pace *pace, uint32_t class)
{
    return pace->added_us[class] > 0.0 ? pace->added_us[class] : pace->alone_us[class];
}

/* Expected price of a row in a step of the class; 0: nothing is measured. */
static double price_of(const struct chunk_pace *pace, uint32_t class)
{
    uint32_t at = class;
    while (at > 0 && known_price(pace, at) <= 0.0)
        at--;
    for (; at + 1 < CHUNK_PACE_CLASSES && known_price(pace, at) <= 0.0; at++)
        ;
    return known_price(pace, at);
}

/* The same, but that of the next larger measured class if it is lower. So a class is tried that prompts step over. */
static double hoped_price(const struct chunk_pace *pace, uint32_t class)
{
    uint32_t at = class;
    while (at + 1 < CHUNK_PACE_CLASSES && known_price(pace, at) <= 0.0)
        at++;
    double larger_us = known_price(pace, at), price_us = price_of(pace, class);
    return larger_us > 0.0 && larger_us < price_us ? larger_us : price_us;
}

/* Time that the prompt rows of a step of at most so long may take: what the streams leave of it, but half of
 * it at least, so that prompts make progress beside streams that nearly reach it alone. */
static double prompt_time(const struct chunk_pace *pace, const struct chunk_request *request,
                          double step_us)
{
    return fmax(step_us - decode_time(pace, request->decode_rows), step_us / 2.0);
}

/* As many of the rows as the target allows, whatever the price. */
static uint32_t fixed_rows(const struct chunk_pace *pace, const struct chunk_request *request)
{
    uint32_t class = class_of(request->most_rows + request->decode_rows);
    double rows = prompt_time(pace, request, request->target_us) / price_of(pace, class);
    if (rows < KV_BLOCK_TOKENS)
        rows = KV_BLOCK_TOKENS;
    return rows < (double)request->most_rows ? (uint32_t)rows : request->most_rows;
}

struct chunk_size {
    uint32_t rows;
    double price_us;
};

struct chunk_sizes {
    struct chunk_size sizes[CHUNK_PACE_CLASSES];
    uint32_t count;
    double lowest_us; /* price, of all */
};

static double lower(double lowest_us, double price_us)
{
    return lowest_us <= 0.0 || price_us < lowest_us ? price_us : lowest_us;
}

/* The chunks that fill a step up to the end of a class and take at most `step_us` with the streams, in
 * order of rows, up to the first one that computes all of the backlog. */
static struct chunk_sizes sizes_within(const struct chunk_pace *pace,
                                       const struct chunk_request *request, double step_us,
                                       double (*price)(const struct chunk_pace *, uint32_t))
{
    struct chunk_sizes found = {.count = 0};
    double most_us = prompt_time(pace, request, step_us);
    uint32_t rows = 0, enough = least(request->backlog_rows, request->most_rows);
    for (uint32_t class = 0; class < CHUNK_PACE_CLASSES && rows < enough; class ++) {
        if (class_ends[class] < request->decode_rows + KV_BLOCK_TOKENS)
            continue;
        rows = least(class_ends[class] - request->decode_rows, request->most_rows);
        double price_us = price(pace, class);
        if (price_us * rows > most_us)
            continue;
        found.sizes[found.count++] = (struct chunk_size){rows, price_us};
        found.lowest_us = lower(found.lowest_us, price_us);
    }
    return found;
}

/* Rows of prompts for each token of the running streams. */
static double rows_per_draw(const struct chunk_request *request)
{
    return (double)request->prompt_tokens / fmax((double)request->draws, 1.0);
}

static bool few_wait(const struct chunk_request *request, uint32_t running)
{
    return request->waiting <= fmax(WAITING_SHARE * running, 1.0);
}

/* The largest of the chunks, if it has at least so many rows. */
static struct chunk_sizes keep_flow(struct chunk_sizes few, double least_rows)
{
    if (few.count == 0 || few.sizes[few.count - 1].rows < least_rows)
        return (struct chunk_sizes){.count = 0};
    few.sizes[0] = few.sizes[few.count - 1];
    few.lowest_us = few.sizes[0].price_us;
    few.count = 1;
    return few;
}

static uint32_t unknown_rows(uint32_t running)
{
    uint32_t rows = UNKNOWN_ROWS * running;
    return rows > LEAST_UNKNOWN ? rows : LEAST_UNKNOWN;
}

/* The chunks within the target; of these the ones that do not stall the streams. */
static struct chunk_sizes sizes_to_compare(const struct chunk_pace *pace,
                                           const struct chunk_request *request)
{
    uint32_t running = request->decode_rows + request->waiting;
    double per_draw = rows_per_draw(request);
    bool few_prompts = few_wait(request, running), known = knows_streams(pace, running);
    bool calm = few_prompts || per_draw <= LIGHT_PROMPTS;
    struct chunk_request bounded = *request;
    if (calm && !few_prompts && !known && pace->mixed_steps < FIRST_STEPS)
        bounded.most_rows = least(request->most_rows, unknown_rows(running));
    struct chunk_sizes all = sizes_within(pace, &bounded, request->target_us, hoped_price);
    double stall_us = decode_time(pace, running);
    stall_us *= few_prompts ? STALL_RATIO : WAVE_RATIO * fmax(1.0, running / (double)CALM_STREAMS);
    if (!calm || !known || stall_us >= request->target_us)
        return all;
    struct chunk_sizes few =
        few_prompts
            ? sizes_within(pace, request, stall_us, hoped_price)
            : keep_flow(sizes_within(pace, request, stall_us, price_of), per_draw * running);
    return few.count > 0 &&
                   few.lowest_us <= (few_prompts ? STALL_PRICE : WAVE_PRICE) * all.lowest_us
               ? few
               : all;
}

uint32_t chunk_pace_rows(const struct chunk_pace *pace, const struct chunk_request *request)
{
    if (request->backlog_rows == 0 || price_of(pace, CHUNK_PACE_CLASSES - 1) <= 0.0)
        return least(UNMEASURED_ROWS, request->most_rows);
    if (request->fixed)
        return fixed_rows(pace, request);
    const struct chunk_sizes found = sizes_to_compare(pace, request);
    if (found.count == 0)
        return least(KV_BLOCK_TOKENS, request->most_rows);
    uint32_t largest = found.sizes[found.count - 1].rows;
    uint32_t needed = request->backlog_rows / SPREAD_STEPS;
    if (needed > largest)
        needed = largest / 2;
    uint32_t first = 0;
    while (found.sizes[first].rows < needed)
        first++;
    double lowest_us = 0.0;
    for (uint32_t i = first; i < found.count; i++)
        lowest_us = lower(lowest_us, found.sizes[i].price_us);
    while (found.sizes[first].price_us > lowest_us * PRICE_TOLERANCE)
        first++;
    return found.sizes[first].rows;
}
