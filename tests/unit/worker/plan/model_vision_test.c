/*
 * Images as rows: counts of patches and features, and the shapes that a tower does not take.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "proto/limits.h"
#include "worker/plan/model_vision.h"

static const struct model_vision any_size = {
    .patch_side = 14, .merge_side = 2, .text_hidden = 64, .deepstack_layers = 2};
static const struct model_vision one_size = {
    .patch_side = 16, .merge_side = 4, .fixed_side = 8, .text_hidden = 48};

static void expect_refused(const struct model_vision *vision, struct image_shape shape,
                           const char *words)
{
    struct error_text error = {""};
    assert_int_equal(model_vision_check(vision, shape, &error), RESULT_INVALID);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void expect_taken(const struct model_vision *vision, struct image_shape shape,
                         uint32_t patches, uint32_t features)
{
    struct error_text error = {""};
    assert_int_equal(model_vision_check(vision, shape, &error), RESULT_OK);
    assert_int_equal(model_vision_patch_rows(vision, shape), patches);
    assert_int_equal(model_vision_feature_rows(vision, shape), features);
}

static void test_counts(void **state)
{
    (void)state;
    struct feature_grid grid = model_vision_grid(&any_size, (struct image_shape){1, 84, 56, 1, 0});
    expect_taken(&any_size, (struct image_shape){1, 84, 56, 1, 0}, 24, 6);
    expect_taken(&one_size, (struct image_shape){3, 128, 128, 1, 0}, 192, 12);
    assert_int_equal(grid.height, 2);
    assert_int_equal(grid.width, 3);
    assert_int_equal(model_vision_feature_columns(&any_size), 192);
    assert_int_equal(model_vision_feature_columns(&one_size), 48);
}

static void test_refusals(void **state)
{
    (void)state;
    struct model_vision bounded = any_size;
    bounded.max_side = 6;
    expect_refused(&any_size, (struct image_shape){1, 85, 56, 1, 0}, "width of 85 pixels");
    expect_refused(&any_size, (struct image_shape){1, 84, 0, 1, 0}, "height of 0 pixels");
    expect_refused(&any_size, (struct image_shape){0, 84, 56, 1, 0}, "0 tiles");
    expect_refused(&any_size, (struct image_shape){UINT32_MAX, 84, 56, 1, 0}, "more than");
    expect_refused(&any_size, (struct image_shape){1, 28 * LIMIT_PATCH_ROWS, 28, 1, 0},
                   "more than");
    expect_refused(&any_size,
                   (struct image_shape){1, UINT32_MAX / 28 * 28, UINT32_MAX / 28 * 28, 1, 0},
                   "more than");
    expect_refused(&one_size, (struct image_shape){1, 64, 128, 1, 0}, "not 128");
    expect_taken(&bounded, (struct image_shape){1, 84, 84, 1, 0}, 36, 9);
    expect_refused(&bounded, (struct image_shape){1, 84, 112, 1, 0}, "more than 84");
}

static struct image_shape sound(uint32_t mels, uint32_t rows)
{
    return (struct image_shape){.tiles = 1, .width = mels, .height = rows, .sound = 1};
}

static void test_sounds(void **state)
{
    (void)state;
    const struct model_vision hears = {
        .mels = 80, .sound_rows = 1500, .patch_side = 1, .merge_side = 1, .text_hidden = 64};
    expect_taken(&hears, sound(80, 5), 2, 1);
    expect_taken(&hears, sound(80, 7), 4, 1); /* three rows, and one that completes the pair */
    expect_taken(&hears, sound(80, 3001), 1500, 750);
    assert_int_equal(model_vision_square(&hears), 2);
    struct model_vision crossed = hears;
    crossed.row_features = true;
    crossed.crossed_layers = 3;
    expect_taken(&crossed, sound(80, 3), 1, 1);
    expect_taken(&crossed, sound(80, 7), 3, 3);
    expect_taken(&crossed, sound(80, 3001), 1500, 1500);
    expect_refused(&crossed, sound(80, 3003), "of 80 mels");
    assert_int_equal(model_vision_square(&crossed), 1);
    assert_int_equal(model_vision_feature_columns(&crossed), 6 * 64); /* keys and values */
    assert_int_equal(model_vision_tile_bytes(sound(80, 7)), 80 * 7 * 4);
    assert_true(model_vision_row_bytes(&hears) * 2 >= model_vision_tile_bytes(sound(80, 5)));
    assert_int_equal(model_vision_grid(&hears, sound(80, 9)).width, 2);
    expect_refused(&hears, sound(80, 3), "3 rows");
    expect_refused(&hears, sound(80, 6), "6 rows");
    expect_refused(&hears, sound(80, 3003), "3003 rows");
    expect_refused(&hears, sound(81, 5), "81 mels");
    expect_refused(&hears, sound(80, 0), "0 rows");
    struct image_shape two = sound(80, 5);
    two.tiles = 2;
    expect_refused(&hears, two, "5 rows");
    expect_refused(&hears, (struct image_shape){1, 80, 5, 0, 0}, "no images");
    expect_refused(&any_size, sound(28, 29), "no sounds");
}

/* Squares of 2 x 2 patches of 4 pixels, at most three: five rows each, and three of padding. */
static void test_canvases(void **state)
{
    (void)state;
    const struct model_vision vision = {.patch_side = 4,
                                        .merge_side = 1,
                                        .canvas_side = 2,
                                        .canvas_tiles = 3,
                                        .crossed_layers = 2,
                                        .key_columns = 6,
                                        .text_hidden = 64};
    static const struct image_shape canvases[] = {
        {1, 8, 8, 0, 0}, {1, 16, 8, 0, 0}, {1, 24, 8, 0, 0}, {1, 8, 16, 0, 0}, {1, 8, 24, 0, 0}};
    assert_int_equal(model_vision_canvas_count(3), 5);
    assert_int_equal(model_vision_canvas_count(4), 8);
    for (uint32_t i = 0; i < 5; i++) {
        struct vision_canvas canvas = model_vision_canvas(&vision, canvases[i]);
        expect_taken(&vision, canvases[i], 3 * 8, 3 * 5);
        assert_int_equal(canvas.aspect, 1 + i);
        assert_int_equal(canvas.tile_rows, 5);
        assert_int_equal(canvas.pad_rows, 3);
        assert_int_equal(model_vision_seen_rows(&vision, canvases[i]),
                         5 * canvas.rows * canvas.columns);
    }
    assert_int_equal(model_vision_feature_columns(&vision), 2 * 2 * 6);
    expect_refused(&vision, (struct image_shape){1, 16, 16, 0, 0}, "no canvas of at most 3");
    expect_refused(&vision, (struct image_shape){2, 8, 8, 0, 0}, "2 tiles of 8 x 8");
    expect_refused(&vision, (struct image_shape){1, 8, 12, 0, 0}, "8 x 12");
    expect_refused(&vision, (struct image_shape){1, 0, 8, 0, 0}, "0 pixels");
}

/* A tower whose sounds end with their last mel row, beside one of images. */
static void test_sounds_beside_images(void **state)
{
    (void)state;
    const struct model_vision hears = {.mels = 80,
                                       .sound_rows = 100,
                                       .sound_ends = true,
                                       .patch_side = 1,
                                       .merge_side = 1,
                                       .text_hidden = 64};
    struct model_vision both = any_size;
    both.sounds = &hears;
    expect_taken(&both, sound(80, 200), 100, 50);
    expect_taken(&both, sound(80, 199), 100, 50);
    expect_taken(&both, sound(80, 5), 4, 1); /* three rows: the last stands for one mel row */
    expect_taken(&both, sound(80, 3), 2, 1);
    expect_taken(&both, (struct image_shape){1, 84, 56, 1, 0}, 24, 6);
    expect_refused(&both, sound(80, 2), "2 rows");
    expect_refused(&both, sound(80, 201), "201 rows");
    expect_refused(&both, sound(79, 20), "79 mels");
    assert_ptr_equal(model_vision_of(&both, sound(80, 20)), &hears);
    assert_ptr_equal(model_vision_of(&both, (struct image_shape){1, 84, 56, 1, 0}), &both);
    assert_int_equal(model_vision_image_rows(&both, sound(80, 20), &(struct image_mosaic){0}), 5);
}

/* Rows stand for four mel rows, which all count. */
static void test_sounds_of_four_mel_rows(void **state)
{
    (void)state;
    const struct model_vision hears = {.mels = 80,
                                       .sound_rows = 100,
                                       .sound_step = 4,
                                       .sound_ends = true,
                                       .row_features = true,
                                       .patch_side = 1,
                                       .merge_side = 1,
                                       .text_hidden = 64};
    expect_taken(&hears, sound(80, 1), 1, 1);
    expect_taken(&hears, sound(80, 4), 1, 1);
    expect_taken(&hears, sound(80, 5), 2, 2);
    expect_taken(&hears, sound(80, 400), 100, 100);
    expect_refused(&hears, sound(80, 401), "401 rows");
    expect_refused(&hears, sound(80, 0), "0 rows");
    assert_true(model_vision_row_bytes(&hears) >= model_vision_tile_bytes(sound(80, 4)));
    struct model_vision joins = hears; /* three rows a feature, which the last one may lack */
    joins.row_features = false;
    joins.sound_join = 3;
    joins.sound_rows = 99;
    expect_taken(&joins, sound(80, 1), 3, 1);
    expect_taken(&joins, sound(80, 12), 3, 1);
    expect_taken(&joins, sound(80, 13), 6, 2);
    expect_refused(&joins, sound(80, 397), "397 rows");
    joins.sound_tokens = 33;
    assert_int_equal(model_vision_image_rows(&joins, sound(80, 13), &(struct image_mosaic){0}), 33);
    assert_int_equal(model_vision_feature_rows(&joins, sound(80, 13)), 2);
    assert_int_equal(model_vision_grid(&joins, sound(80, 13)).width, 33);
}

static void test_mosaics(void **state)
{
    (void)state;
    const struct model_vision mosaics = {
        .patch_side = 4, .merge_side = 1, .fixed_side = 3, .mosaic = true, .text_hidden = 8};
    const struct image_shape shape = {3, 12, 12, 1, 0}, alone = {1, 12, 12, 1, 0};
    static const struct {
        struct image_mosaic mosaic;
        uint32_t rows; /* 0: refused */
    } cases[] = {
        {{1, 2, 3, 6, 3, 6}, 9 + 3 * 7},  {{2, 1, 4, 3, 2, 1}, 9 + 2 * 2},
        {{1, 2, 1, 0, 1, 0}, 9 + 1},      {{1, 2, 2, 6, 2, 6}, 0},
        {{1, 2, 5, 6, 3, 6}, 0},          {{1, 2, 3, 6, 4, 6}, 0},
        {{1, 2, 3, 6, 3, 7}, 0},          {{1, 1, 3, 3, 3, 3}, 0},
        {{0, 0, 0, 0, 0, 0}, 0},          {{0, 2, 3, 6, 3, 6}, 0},
        {{UINT32_MAX, 2, 3, 6, 3, 6}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error_text error = {""};
        enum result wanted = cases[i].rows > 0 ? RESULT_OK : RESULT_INVALID;
        assert_int_equal(model_vision_check_mosaic(&mosaics, shape, &cases[i].mosaic, &error),
                         wanted);
        if (wanted == RESULT_OK)
            assert_int_equal(model_vision_image_rows(&mosaics, shape, &cases[i].mosaic),
                             cases[i].rows);
    }
    const struct image_mosaic none = {0};
    struct error_text error = {""};
    assert_int_equal(model_vision_check_mosaic(&mosaics, alone, &none, &error), RESULT_OK);
    assert_int_equal(model_vision_image_rows(&mosaics, alone, &none), 9 + 1);
    assert_int_equal(model_vision_check_mosaic(&one_size, (struct image_shape){3, 128, 128, 1, 0},
                                               &cases[0].mosaic, &error),
                     RESULT_INVALID);
    assert_int_equal(
        model_vision_image_rows(&one_size, (struct image_shape){3, 128, 128, 1, 0}, &none), 12);
}

/* Two rows around an image and one after each line. */
static void test_frames(void **state)
{
    (void)state;
    const struct model_vision frames = {
        .patch_side = 4, .merge_side = 2, .framed = true, .text_hidden = 8};
    const struct image_mosaic none = {0};
    const struct image_shape shape = {1, 40, 24, 1, 0};
    struct error_text error = {""};
    assert_int_equal(model_vision_check(&frames, shape, &error), RESULT_OK);
    assert_int_equal(model_vision_image_rows(&frames, shape, &none), 3 * (5 + 1) + 2);
    assert_int_equal(model_vision_feature_rows(&frames, shape), 15);
    expect_refused(&frames, (struct image_shape){2, 40, 24, 1, 0}, "one tile, not 2");
    assert_int_equal(model_vision_check_mosaic(
                         &frames, shape, &(const struct image_mosaic){1, 1, 3, 5, 3, 5}, &error),
                     RESULT_INVALID);
}

/* Squares of two by two of tiles of five by five patches; every image has two views, with lines that end alike. */
static void test_lined_mosaics(void **state)
{
    (void)state;
    const struct model_vision lined = {.patch_side = 4,
                                       .merge_side = 1,
                                       .fixed_side = 5,
                                       .join_side = 2,
                                       .mosaic = true,
                                       .lined = true,
                                       .text_hidden = 8};
    const struct image_shape shape = {5, 20, 20, 1, 0}, alone = {1, 20, 20, 1, 0};
    const struct image_mosaic whole = {2, 2, 6, 6, 6, 6}, none = {0}, cut = {2, 2, 4, 6, 4, 6},
                              small = {2, 2, 6, 6, 3, 3};
    struct error_text error = {""};
    assert_int_equal(model_vision_check(&lined, shape, &error), RESULT_OK);
    assert_int_equal(model_vision_check_mosaic(&lined, shape, &whole, &error), RESULT_OK);
    assert_int_equal(model_vision_image_rows(&lined, shape, &whole), 3 * 4 + 1 + 6 * 7);
    assert_int_equal(model_vision_feature_rows(&lined, shape), 5 * 25);
    assert_int_equal(model_vision_grid(&lined, shape).width, 3);
    assert_int_equal(model_vision_check_mosaic(&lined, alone, &none, &error), RESULT_INVALID);
    assert_int_equal(model_vision_check_mosaic(&lined, shape, &none, &error), RESULT_INVALID);
    assert_int_equal(model_vision_check_mosaic(&lined, shape, &cut, &error), RESULT_INVALID);
    assert_int_equal(model_vision_check_mosaic(&lined, shape, &small, &error), RESULT_INVALID);
}

/* Two tiles beside each other, with a row after each of three lines; or one tile with such rows and another one. */
static void test_split_views(void **state)
{
    (void)state;
    const struct model_vision split = {.patch_side = 4,
                                       .merge_side = 4,
                                       .max_side = 12,
                                       .lead_row = true,
                                       .mosaic = true,
                                       .split_views = true,
                                       .text_hidden = 8};
    const struct image_shape tiles = {2, 32, 48, 1, 0}, alone = {1, 48, 48, 1, 0};
    const struct image_mosaic whole = {1, 2, 3, 4, 3, 4}, none = {0}, more = {1, 1, 3, 2, 3, 2},
                              small = {1, 2, 3, 4, 2, 2};
    struct error_text error = {""};
    assert_int_equal(model_vision_check(&split, tiles, &error), RESULT_OK);
    assert_int_equal(model_vision_check_mosaic(&split, tiles, &whole, &error), RESULT_OK);
    assert_int_equal(model_vision_image_rows(&split, tiles, &whole), 3 * 5);
    assert_int_equal(model_vision_patch_rows(&split, tiles), 2 * (96 + 16));
    assert_int_equal(model_vision_check_mosaic(&split, alone, &none, &error), RESULT_OK);
    assert_int_equal(model_vision_image_rows(&split, alone, &none), 3 * 4 + 1);
    assert_int_equal(model_vision_check_mosaic(&split, tiles, &none, &error), RESULT_INVALID);
    assert_int_equal(model_vision_check_mosaic(&split, tiles, &more, &error), RESULT_INVALID);
    assert_int_equal(model_vision_check_mosaic(&split, tiles, &small, &error), RESULT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts),
                                       cmocka_unit_test(test_canvases),
                                       cmocka_unit_test(test_sounds),
                                       cmocka_unit_test(test_sounds_beside_images),
                                       cmocka_unit_test(test_sounds_of_four_mel_rows),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_mosaics),
                                       cmocka_unit_test(test_lined_mosaics),
                                       cmocka_unit_test(test_split_views),
                                       cmocka_unit_test(test_frames)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
