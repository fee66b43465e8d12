/*
 * chunk_pace: a block or more of rows, within the target; small chunks where all rows cost the
 * same, larger ones where their rows are cheaper or prompts pile up; few prompts stall no streams. A simulation of 64 streams with
 * the step times of one H200 compares the choice with fixed chunks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/schedule/chunk_pace.h"

#define TARGET_US 100000.0

static uint32_t rows_for(const struct chunk_pace *pace, uint32_t decode_rows, uint32_t backlog_rows,
                         double target_us)
{
    return chunk_pace_rows(pace, &(struct chunk_request){.decode_rows = decode_rows,
                                                         .backlog_rows = backlog_rows,
                                                         .waiting = decode_rows,
                                                         .prompt_tokens = 1000000,
                                                         .most_rows = 2048 - decode_rows,
                                                         .target_us = target_us});
}

/* Steps of 8 streams take 10 ms, and each prompt row adds `row_us`. */
static struct chunk_pace even_prices(double row_us)
{
    struct chunk_pace pace = {0};
    chunk_pace_note(&pace, 0, 8, 10000.0);
    for (uint32_t end = 32; end <= 2048; end *= 2) {
        chunk_pace_note(&pace, end - 8, 8, 10000.0 + row_us * (end - 8));
        chunk_pace_note(&pace, end * 3 / 2 - 8, 8, 10000.0 + row_us * (end * 3 / 2 - 8));
    }
    return pace;
}

static void test_unmeasured_is_small(void **state)
{
    (void)state;
    struct chunk_pace pace = {0};
    assert_int_equal(rows_for(&pace, 4, 10000, TARGET_US), 64);
    chunk_pace_note(&pace, 0, 4, 1000.0);
    assert_int_equal(rows_for(&pace, 4, 10000, TARGET_US), 64);
    assert_int_equal(
        chunk_pace_rows(&pace, &(struct chunk_request){.backlog_rows = 9, .most_rows = 8}), 8);
    assert_int_equal(chunk_pace_rows(&pace, &(struct chunk_request){.most_rows = 0}), 0);
}

static void test_backlog_is_computed_in_eight_steps(void **state)
{
    (void)state;
    const struct chunk_pace pace = even_prices(20.0);
    assert_int_equal(rows_for(&pace, 8, 100, TARGET_US), 24); /* a step of 32 rows */
    assert_int_equal(rows_for(&pace, 8, 512, TARGET_US), 88); /* 64 are due: a step of 96 */
    assert_int_equal(rows_for(&pace, 8, 5000, TARGET_US), 760);
    assert_int_equal(rows_for(&pace, 8, 100000, TARGET_US), 1528); /* from half of the largest */
}

static void test_target_bounds_the_step(void **state)
{
    (void)state;
    const struct chunk_pace pace = even_prices(1000.0);
    assert_int_equal(rows_for(&pace, 8, 100000, TARGET_US), 56); /* half of 88 are due */
    assert_int_equal(rows_for(&pace, 8, 100000, 50000.0), 24);
    assert_int_equal(rows_for(&pace, 8, 100000, 20000.0), 16); /* a block, whatever it takes */
    assert_int_equal(rows_for(&pace, 8, 100000, 1.0), 16);
}

/* One prompt beside ten streams: steps take at most 30 ms, thrice the streams' time. */
static void test_few_prompts_do_not_stall_streams(void **state)
{
    (void)state;
    struct chunk_pace pace = even_prices(50.0);
    chunk_pace_note(&pace, 0, 10, 10000.0);
    struct chunk_request request = {.decode_rows = 10,
                                    .backlog_rows = 5000,
                                    .waiting = 1,
                                    .prompt_tokens = 5000,
                                    .draws = 1200,
                                    .most_rows = 2038,
                                    .target_us = TARGET_US};
    assert_in_range(chunk_pace_rows(&pace, &request), 180, 400);
    request.waiting = 2;
    assert_in_range(chunk_pace_rows(&pace, &request), 700, 1800);
    /* Nor do many prompts, if at most four rows come with each token. */
    request.draws = 1250;
    assert_in_range(chunk_pace_rows(&pace, &request), 400, 600);
    /* More prompts than such chunks compute: 22 rows do, for 12 sequences. */
    pace = even_prices(1000.0);
    chunk_pace_note(&pace, 0, 10, 10000.0);
    request.draws = 2750;
    assert_int_equal(chunk_pace_rows(&pace, &request), 22);
    request.draws = 2650;
    assert_in_range(chunk_pace_rows(&pace, &request), 54, 86);
}

static void test_answers_are_expected_to_be_like_the_last_ones(void **state)
{
    (void)state;
    struct chunk_pace pace = {0};
    assert_int_equal(chunk_pace_expected_draws(&pace, 4096), 4096);
    chunk_pace_note_answer(&pace, 300);
    assert_int_equal(chunk_pace_expected_draws(&pace, 4096), 300);
    assert_int_equal(chunk_pace_expected_draws(&pace, 200), 200);
    chunk_pace_note_answer(&pace, 100);
    assert_int_equal(chunk_pace_expected_draws(&pace, 4096), 290);
    for (int i = 0; i < 200; i++)
        chunk_pace_note_answer(&pace, 0);
    assert_int_equal(chunk_pace_expected_draws(&pace, 4096), 1);
}

/* Of many streams that were not measured, each prompt of a light load adds a few rows. */
static void test_unknown_streams_get_small_chunks(void **state)
{
    (void)state;
    struct chunk_pace pace = even_prices(20.0);
    struct chunk_request request = {.decode_rows = 40,
                                    .backlog_rows = 50000,
                                    .waiting = 60,
                                    .prompt_tokens = 400,
                                    .draws = 100,
                                    .most_rows = 2008,
                                    .target_us = TARGET_US};
    assert_in_range(chunk_pace_rows(&pace, &request), 300, 600);
    request.decode_rows = 10;
    request.waiting = 10;
    assert_in_range(chunk_pace_rows(&pace, &request), 120, 256);
    request.draws = 99;
    assert_in_range(chunk_pace_rows(&pace, &request), 1000, 2008);
}

/* If rows of large steps are much cheaper, streams wait. */
static void test_expensive_rows_stall_streams(void **state)
{
    (void)state;
    struct chunk_pace pace = even_prices(50.0);
    chunk_pace_note(&pace, 0, 10, 10000.0);
    for (int i = 0; i < 40; i++)
        chunk_pace_note(&pace, 1016, 8, 10000.0 + 30.0 * 1016);
    struct chunk_request request = {.decode_rows = 10,
                                    .backlog_rows = 1014,
                                    .waiting = 1,
                                    .most_rows = 2038,
                                    .target_us = TARGET_US};
    assert_int_equal(chunk_pace_rows(&pace, &request), 1014);
}

/* Streams that take as long as the target leave half of it to prompts. */
static void test_slow_streams_leave_time_to_prompts(void **state)
{
    (void)state;
    const struct chunk_pace pace = even_prices(100.0);
    assert_int_equal(rows_for(&pace, 8, 100000, 10000.0), 24);
    assert_int_equal(rows_for(&pace, 8, 100000, 11300.0), 56);
}

static void test_fixed_rows_are_bounded_by_the_target_only(void **state)
{
    (void)state;
    const struct chunk_pace pace = even_prices(100.0);
    struct chunk_request request = {
        .decode_rows = 8, .backlog_rows = 17, .most_rows = 256, .fixed = true, .target_us = 1e6};
    assert_int_equal(chunk_pace_rows(&pace, &request), 256);
    request.target_us = 20000.0;
    assert_in_range(chunk_pace_rows(&pace, &request), 99, 101);
    request.target_us = 0.0;
    assert_int_equal(chunk_pace_rows(&pace, &request), 16);
}

static void test_cheaper_rows_are_preferred(void **state)
{
    (void)state;
    struct chunk_pace pace = even_prices(40.0);
    for (int i = 0; i < 40; i++)
        chunk_pace_note(&pace, 504, 8, 10000.0 + 20.0 * 504); /* half the price */
    assert_int_equal(rows_for(&pace, 8, 500, TARGET_US), 504);
    assert_int_equal(rows_for(&pace, 8, 500, 15000.0), 88); /* not within this target */
}

static void test_a_slow_size_is_tried_again(void **state)
{
    (void)state;
    struct chunk_pace pace = even_prices(20.0);
    for (int i = 0; i < 40; i++)
        chunk_pace_note(&pace, 24, 8, 10000.0 + 40.0 * 24);
    assert_int_equal(rows_for(&pace, 8, 50, TARGET_US), 56);
    for (int i = 0; i < 3000; i++)
        chunk_pace_note(&pace, 56, 8, 10000.0 + 20.0 * 56);
    assert_int_equal(rows_for(&pace, 8, 50, TARGET_US), 24);
}

static void test_odd_times_stay_in_range(void **state)
{
    (void)state;
    struct chunk_pace pace = {0};
    chunk_pace_note(&pace, 64, 0, 0.0); /* a clock that stood still */
    chunk_pace_note(&pace, 0, 4, 0.0);
    chunk_pace_note(&pace, 64, 4, 1e18);
    chunk_pace_note(&pace, 0, 4, 1e18);
    chunk_pace_note(&pace, 64, 4, 1.0);
    chunk_pace_note(&pace, 4096, 1024, 1e9);
    uint32_t rows = rows_for(&pace, 4, 10000, TARGET_US);
    assert_in_range(rows, 1, 2044);
    assert_int_equal(rows_for(&pace, 2048, 10000, TARGET_US), 0);
}

/* --- simulation ------------------------------------------------------------------------------ */

#define MOST_STREAMS 256u

/* A closed loop: each stream sends `requests`, one after the other; all begin together. */
struct load {
    uint32_t streams, prompt_tokens, answer_tokens, requests;
};
static const struct load chat = {64, 512, 256, 4};
static const struct load long_chat = {64, 512, 256, 80};
static const struct load crowd = {256, 512, 256, 3};
static const struct load documents = {64, 2048, 128, 4};

/* Rows of a step and its milliseconds. */
struct point {
    double rows, ms;
};

/* One H200, 8B in Q4_0, driver 580.159.04, 2026-11-22: decodes of 1 to 128 streams, then prompts. */
static const struct point measured[] = {{1, 1.83},   {4, 2.51},    {8, 2.60},    {16, 3.09},
                                        {32, 4.82},  {64, 6.68},   {128, 10.7},  {192, 27.6},
                                        {256, 25.6}, {320, 36.8},  {384, 32.6},  {512, 41.6},
                                        {768, 63.4}, {1024, 59.9}, {2048, 114.2}};
/* The same with tier PTX, 2026-11-24. */
static const struct point ptx[] = {{1, 1.82},   {8, 2.57},   {16, 3.06},   {32, 4.75},  {64, 5.20},
                                   {128, 6.96}, {192, 11.4}, {256, 10.5},  {320, 15.5}, {384, 15.1},
                                   {512, 17.1}, {768, 29.0}, {1024, 28.9}, {2048, 55.7}};
/* The same without the steps' cliffs above 128 rows: 25,000 rows a second. */
static const struct point even[] = {{1, 1.83},  {4, 2.51},  {8, 2.60},  {16, 3.09},
                                    {32, 4.82}, {64, 6.68}, {128, 9.2}, {2048, 86.0}};

static double step_ms(const struct point *points, uint32_t count, double rows)
{
    uint32_t i = 1;
    while (i + 1 < count && points[i].rows < rows)
        i++;
    double share = (rows - points[i - 1].rows) / (points[i].rows - points[i - 1].rows);
    return points[i - 1].ms + share * (points[i].ms - points[i - 1].ms);
}

struct outcome {
    double tokens_per_s; /* generated */
    double worst_ms;     /* of 99 % of the tokens, time since the one before */
    double usual_ms;     /* of 50 % */
};

struct stream {
    uint32_t prompt_left; /* 0: decodes */
    uint32_t answer_left;
    uint32_t requests_left; /* 0: has ended */
};

#define MS_CLASSES 400u /* by half milliseconds */

static double share_ms(const uint64_t *tokens, uint64_t all, double share)
{
    uint64_t seen = 0;
    uint32_t class = 0;
    while (class < MS_CLASSES - 1 && (double)(seen += tokens[class]) < share * (double)all)
        class ++;
    return class * 0.5;
}

static struct chunk_request request_of(const struct stream *streams, const struct load *load)
{
    struct chunk_request request = {.target_us = TARGET_US};
    for (uint32_t i = 0; i < load->streams; i++) {
        if (streams[i].requests_left == 0)
            continue;
        request.decode_rows += streams[i].prompt_left == 0;
        request.backlog_rows += streams[i].prompt_left;
        request.waiting += streams[i].prompt_left > 0;
        request.prompt_tokens += load->prompt_tokens;
        request.draws += load->answer_tokens;
    }
    request.most_rows = 2048 - request.decode_rows;
    return request;
}

static bool draw(struct stream *stream, const struct load *load)
{
    if (stream->requests_left == 0 || stream->prompt_left > 0)
        return false;
    if (--stream->answer_left == 0)
        *stream =
            (struct stream){load->prompt_tokens, load->answer_tokens, stream->requests_left - 1};
    return true;
}

/* Prompts are computed first in, first out, beside all streams that decode. The next request of a
 * stream arrives when its answer ends. fixed_rows 0: the chunk is chosen. */
static struct outcome simulate(const struct point *points, uint32_t count, const struct load *load,
                               uint32_t fixed_rows)
{
    static struct stream streams[MOST_STREAMS];
    uint64_t tokens[MS_CLASSES] = {0}, all = 0;
    struct chunk_pace pace = {0};
    chunk_pace_note(&pace, 2048, 0, step_ms(points, count, 2048) * 1000.0);
    chunk_pace_note(&pace, 0, 1, step_ms(points, count, 1) * 1000.0);
    double time_ms = 0.0;
    for (uint32_t i = 0; i < load->streams; i++)
        streams[i] = (struct stream){load->prompt_tokens, load->answer_tokens, load->requests};
    uint32_t oldest = 0; /* all streams are alike, so they wait in the order of a ring */
    for (;;) {
        const struct chunk_request request = request_of(streams, load);
        uint32_t room = fixed_rows ? fixed_rows : chunk_pace_rows(&pace, &request);
        room = request.decode_rows == 0 ? 2048 : room;
        uint32_t prompt_rows = room < request.backlog_rows ? room : request.backlog_rows;
        if (prompt_rows + request.decode_rows == 0)
            break;
        double ms = step_ms(points, count, request.decode_rows + prompt_rows);
        chunk_pace_note(&pace, prompt_rows, request.decode_rows, ms * 1000.0);
        for (uint32_t i = 0; i < load->streams; i++)
            all += draw(&streams[i], load);
        for (uint32_t left = prompt_rows; left > 0; oldest = (oldest + 1) % load->streams) {
            struct stream *stream = &streams[oldest];
            if (stream->requests_left == 0)
                continue;
            uint32_t rows = stream->prompt_left < left ? stream->prompt_left : left;
            stream->prompt_left -= rows;
            left -= rows;
            if (stream->prompt_left > 0)
                break;
            if (rows > 0)
                all += draw(stream, load); /* its last row draws the first token */
        }
        uint32_t class = (uint32_t)(ms * 2.0);
        tokens[class < MS_CLASSES ? class : MS_CLASSES - 1] += request.decode_rows;
        time_ms += ms;
    }
    uint64_t gaps = 0;
    for (uint32_t i = 0; i < MS_CLASSES; i++)
        gaps += tokens[i];
    return (struct outcome){.tokens_per_s = (double)all * 1000.0 / time_ms,
                            .worst_ms = share_ms(tokens, gaps, 0.99),
                            .usual_ms = share_ms(tokens, gaps, 0.5)};
}

#define COUNT(points) (uint32_t)(sizeof(points) / sizeof(points)[0])

/* All answers in steps of 64 decodes, then all prompts in steps of 2,048 rows: tokens a second. */
static double parts_alone(const struct point *points, uint32_t count)
{
    double decode_ms = chat.answer_tokens * step_ms(points, count, chat.streams);
    double prompt_ms = chat.streams * chat.prompt_tokens / 2048.0 * step_ms(points, count, 2048);
    return chat.streams * chat.answer_tokens * 1000.0 / (decode_ms + prompt_ms);
}

static struct outcome print(const char *name, struct outcome outcome)
{
    print_message("%s: %.0f tokens/s, ITL p50 %.1f, p99 %.1f ms\n", name, outcome.tokens_per_s,
                  outcome.usual_ms, outcome.worst_ms);
    return outcome;
}

static void test_64_streams_with_the_times_of_a_gpu(void **state)
{
    (void)state;
    struct outcome chosen = print("chosen", simulate(measured, COUNT(measured), &long_chat, 0));
    struct outcome fixed = print("256 rows", simulate(measured, COUNT(measured), &long_chat, 256));
    double alone = parts_alone(measured, COUNT(measured));
    print_message("parts alone: %.0f tokens/s\n", alone);
    assert_true(chosen.tokens_per_s > 1.4 * fixed.tokens_per_s);
    assert_true(chosen.tokens_per_s > 0.93 * alone);
    assert_true(chosen.worst_ms <= TARGET_US / 1000.0);
}

static void test_64_streams_without_cliffs(void **state)
{
    (void)state;
    struct outcome chosen = print("chosen", simulate(even, COUNT(even), &long_chat, 0));
    double alone = parts_alone(even, COUNT(even));
    print_message("parts alone: %.0f tokens/s\n", alone);
    assert_true(chosen.tokens_per_s > alone);
    assert_true(chosen.worst_ms <= TARGET_US / 1000.0);
}

static void check_pace(const struct load *load, double least_share, double most_ratio)
{
    struct outcome chosen = print("chosen", simulate(ptx, COUNT(ptx), load, 0));
    struct outcome fixed = print("1,984 rows", simulate(ptx, COUNT(ptx), load, 1984));
    assert_true(chosen.tokens_per_s > least_share * fixed.tokens_per_s);
    assert_true(chosen.worst_ms <= most_ratio * chosen.usual_ms);
}

static void test_64_streams_are_not_stalled(void **state)
{
    (void)state;
    check_pace(&long_chat, 0.95, 3.0);
}

/* Also those that begin together, and while nothing is known of their steps. */
static void test_a_wave_of_prompts_does_not_stall_streams(void **state)
{
    (void)state;
    check_pace(&chat, 0.91, 3.6);
}

/* Many streams and long prompts: throughput counts. */
static void test_full_servers_compute_large_chunks(void **state)
{
    (void)state;
    check_pace(&crowd, 0.97, 8.0);
    check_pace(&documents, 0.97, 20.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unmeasured_is_small),
        cmocka_unit_test(test_backlog_is_computed_in_eight_steps),
        cmocka_unit_test(test_target_bounds_the_step),
        cmocka_unit_test(test_few_prompts_do_not_stall_streams),
        cmocka_unit_test(test_answers_are_expected_to_be_like_the_last_ones),
        cmocka_unit_test(test_unknown_streams_get_small_chunks),
        cmocka_unit_test(test_expensive_rows_stall_streams),
        cmocka_unit_test(test_slow_streams_leave_time_to_prompts),
        cmocka_unit_test(test_fixed_rows_are_bounded_by_the_target_only),
        cmocka_unit_test(test_cheaper_rows_are_preferred),
        cmocka_unit_test(test_a_slow_size_is_tried_again),
        cmocka_unit_test(test_odd_times_stay_in_range),
        cmocka_unit_test(test_64_streams_with_the_times_of_a_gpu),
        cmocka_unit_test(test_64_streams_without_cliffs),
        cmocka_unit_test(test_64_streams_are_not_stalled),
        cmocka_unit_test(test_a_wave_of_prompts_does_not_stall_streams),
        cmocka_unit_test(test_full_servers_compute_large_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
