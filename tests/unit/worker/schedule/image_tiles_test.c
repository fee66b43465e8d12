/*
 * The tokens of placeholders and their time, height and width, compared with Hugging Face's
 * Qwen2-VL (transformers 5.23.0, Qwen2VLModel.get_rope_index, run 2026-11-22 with grids of 4 x 6, 2
 * x 2 and 10 x 4 patches, merged 2 x 2, and these ids).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/schedule/image_tiles.h"

static const uint32_t prompt[] = {1, 1, 7, 9, 9, 9, 9, 9, 9, 8, 1, 7, 9, 8, 7,
                                  9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 8, 1, 1, 1};
#define PROMPT_TOKENS (sizeof prompt / sizeof prompt[0])
static const uint32_t times[] = {0,  1,  2,  3,  3,  3,  3,  3,  3,  6,  7,  8,  9,  10, 11,
                                 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 17, 18, 19, 20};
static const uint32_t heights[] = {0,  1,  2,  3,  3,  3,  4,  4,  4,  6,  7,  8,  9,  10, 11,
                                   12, 12, 13, 13, 14, 14, 15, 15, 16, 16, 17, 18, 19, 20};
static const uint32_t widths[] = {0,  1,  2,  3,  4,  5,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                  12, 13, 12, 13, 12, 13, 12, 13, 12, 13, 17, 18, 19, 20};

static const struct image_record records[] = {
    {.tiles = 1, .first_token = 3, .span_tokens = 6, .token_count = 6},
    {.tiles = 1, .first_token = 12, .span_tokens = 1, .token_count = 1},
    {.tiles = 1, .first_token = 15, .span_tokens = 10, .token_count = 10}};

static void test_positions_of_three_images(void **state)
{
    (void)state;
    struct image_tile tiles[3];
    assert_int_equal(image_tiles_find(records, 3, prompt, tiles, NULL), RESULT_OK);
    const struct feature_grid grids[] = {{2, 3}, {1, 1}, {5, 2}};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(tiles[i].first_token, records[i].first_token);
        tiles[i].grid = grids[i];
    }
    image_tiles_place(tiles, 3);
    for (uint32_t token = 0; token < PROMPT_TOKENS; token++) {
        struct rope_position position = image_tiles_position(tiles, 3, token);
        assert_int_equal(position.time, times[token]);
        assert_int_equal(position.height, heights[token]);
        assert_int_equal(position.width, widths[token]);
    }
    /* Generated tokens keep the same difference, -8 in the reference. */
    struct rope_position later = image_tiles_position(tiles, 3, 1000);
    assert_int_equal(later.time, 992);
    assert_int_equal(later.height, 992);
    assert_int_equal(later.width, 992);
}

static void test_text_positions_are_token_indices(void **state)
{
    (void)state;
    struct rope_position position = image_tiles_position(NULL, 0, 17);
    assert_int_equal(position.time, 17);
    assert_int_equal(position.height, 17);
    assert_int_equal(position.width, 17);
}

static void test_tiles_with_text_between(void **state)
{
    (void)state;
    const uint32_t ids[] = {4, 9, 9, 5, 9, 9, 9, 9, 6};
    const struct image_record record = {
        .tiles = 3, .first_token = 1, .span_tokens = 7, .token_count = 6};
    struct image_tile tiles[3];
    assert_int_equal(image_tiles_find(&record, 1, ids, tiles, NULL), RESULT_OK);
    const uint32_t firsts[] = {1, 4, 6};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(tiles[i].first_token, firsts[i]);
        assert_int_equal(tiles[i].token_count, 2);
        assert_int_equal(tiles[i].first_feature, 2 * i);
    }
    const uint32_t after[] = {0, 0, 0, 1, 1, 1, 2, 2, 3, 3};
    for (uint32_t token = 0; token < 10; token++)
        assert_int_equal(image_tiles_after(tiles, 3, token), after[token]);
}

/* Two tiles of two lines, each followed by another token. */
static void test_lines_with_text_between(void **state)
{
    (void)state;
    const uint32_t ids[] = {4, 9, 9, 9, 5, 9, 9, 9, 6, 9, 9, 9, 5, 9, 9, 9, 6};
    struct image_record record = {
        .tiles = 2, .first_token = 1, .span_tokens = 15, .token_count = 12, .tile_lines = 2};
    struct image_tile runs[4];
    assert_int_equal(image_record_runs(&record), 4);
    assert_int_equal(image_tiles_find(&record, 1, ids, runs, NULL), RESULT_OK);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(runs[i].first_token, 1 + 4 * i);
        assert_int_equal(runs[i].token_count, 3);
        assert_int_equal(runs[i].first_feature, 3 * i);
    }
    struct error_text error;
    record.tile_lines = 1;
    assert_int_equal(image_tiles_find(&record, 1, ids, runs, &error), RESULT_INVALID);
    record.tile_lines = 3;
    struct image_tile more[6];
    assert_int_equal(image_tiles_find(&record, 1, ids, more, &error), RESULT_INVALID);
}

static void test_placeholders_that_do_not_fit(void **state)
{
    (void)state;
    const struct {
        uint32_t ids[8];
        struct image_record record;
    } wrong[] = {
        {{9, 9, 9, 1}, {.tiles = 1, .first_token = 0, .span_tokens = 4, .token_count = 3}},
        {{9, 9, 9, 9}, {.tiles = 1, .first_token = 0, .span_tokens = 4, .token_count = 3}},
        {{9, 9, 1, 9}, {.tiles = 1, .first_token = 0, .span_tokens = 4, .token_count = 3}},
        {{9, 1, 9, 9}, {.tiles = 2, .first_token = 0, .span_tokens = 4, .token_count = 4}},
        {{9, 1, 9, 1, 9}, {.tiles = 2, .first_token = 0, .span_tokens = 5, .token_count = 4}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct image_tile tiles[2];
        assert_int_equal(image_tiles_find(&wrong[i].record, 1, wrong[i].ids, tiles, NULL),
                         RESULT_INVALID);
    }
}

/* Three temporal patches of one line of two features, 4 and 5 after the first in time, then text; the
 * expected positions are those of Qwen2-VL's rule by hand. */
static void test_a_video_goes_on_in_time(void **state)
{
    (void)state;
    struct image_tile tiles[] = {
        {.first_token = 2, .token_count = 2, .grid = {1, 2}},
        {.first_token = 4, .token_count = 2, .grid = {1, 2}, .joined = true, .time = 4},
        {.first_token = 6, .token_count = 2, .grid = {1, 2}, .joined = true, .time = 5},
        {.first_token = 9, .token_count = 2, .grid = {1, 2}}};
    static const uint32_t expected_times[] = {0, 1, 2, 2, 6, 6, 7, 7, 8, 9, 9, 11};
    static const uint32_t expected_widths[] = {0, 1, 2, 3, 2, 3, 2, 3, 8, 9, 10, 11};
    image_tiles_place(tiles, 4);
    for (uint32_t token = 0; token < 12; token++) {
        struct rope_position position = image_tiles_position(tiles, 4, token);
        assert_int_equal(position.time, expected_times[token]);
        assert_int_equal(position.width, expected_widths[token]);
    }
}

/* Images of 5 x 3 and 3 x 2 features with a row after each line and around them, in the second prompt of
 * tests/golden/towers/hunyuan_vl: positions of transformers 5.24.0, HunYuanVLModel.get_rope_index. */
static void test_positions_of_framed_images(void **state)
{
    (void)state;
    static const uint32_t expected[][3] = {
        {0, 0, 0},    {1, 1, 1},    {2, 2, 2},    {3, 3, 3},    {4, 4, 4},    {0, 0, 0},
        {0, 0, 1},    {0, 0, 2},    {0, 0, 3},    {0, 0, 4},    {0, 0, 5},    {0, 1, 0},
        {0, 1, 1},    {0, 1, 2},    {0, 1, 3},    {0, 1, 4},    {0, 1, 5},    {0, 2, 0},
        {0, 2, 1},    {0, 2, 2},    {0, 2, 3},    {0, 2, 4},    {0, 2, 5},    {23, 23, 23},
        {24, 24, 24}, {25, 25, 25}, {26, 26, 26}, {27, 27, 27}, {28, 28, 28}, {29, 29, 29},
        {1, 0, 0},    {1, 0, 1},    {1, 0, 2},    {1, 0, 3},    {1, 1, 0},    {1, 1, 1},
        {1, 1, 2},    {1, 1, 3},    {38, 38, 38}, {39, 39, 39}, {40, 40, 40}, {41, 41, 41},
        {42, 42, 42}, {43, 43, 43}};
    struct image_tile tiles[] = {
        {.first_token = 4, .token_count = 20, .grid = {1, 20}, .framed_columns = 6},
        {.first_token = 29, .token_count = 10, .image = 1, .grid = {1, 10}, .framed_columns = 4}};
    image_tiles_place(tiles, 2);
    for (uint32_t token = 0; token < sizeof expected / sizeof expected[0]; token++) {
        struct rope_position position = image_tiles_position(tiles, 2, token);
        assert_int_equal(position.time, expected[token][0]);
        assert_int_equal(position.height, expected[token][1]);
        assert_int_equal(position.width, expected[token][2]);
    }
    assert_int_equal(image_tiles_position(tiles, 2, 500).width, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_positions_of_three_images),
        cmocka_unit_test(test_text_positions_are_token_indices),
        cmocka_unit_test(test_tiles_with_text_between),
        cmocka_unit_test(test_lines_with_text_between),
        cmocka_unit_test(test_placeholders_that_do_not_fit),
        cmocka_unit_test(test_a_video_goes_on_in_time),
        cmocka_unit_test(test_positions_of_framed_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
