/*
 * The images of one sequence: what is refused when they are copied and fitted, which features are
 * held and for how long, and their part in the names of cached prefixes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "worker/schedule/sequence_images.h"

static const struct model_vision vision = {
    .patch_side = 4, .merge_side = 2, .hidden = 8, .text_hidden = 8, .stages = 3};
static const struct image_limits limits = {
    .vision = &vision, .patch_rows = 64, .feature_rows = 16, .whole_tokens = 8};

/* Two images of 8 x 16 pixels, with two features each, after three and two tokens of text. */
static const uint32_t prompt[] = {1, 1, 1, 9, 9, 1, 1, 9, 9, 1};
#define PROMPT_TOKENS (sizeof prompt / sizeof prompt[0])

static const uint32_t no_salt[4]; /* in particular */

struct part {
    struct image_record records[2];
    uint8_t pixels[2048]; /* enough for a wider image */
    uint64_t bytes;
};

static struct part make_part(void)
{
    struct part part = {.records = {{.first_token = 3}, {.first_token = 7}}};
    for (uint32_t i = 0; i < 2; i++) {
        struct image_record *record = &part.records[i];
        record->content_hash[0] = (uint8_t)(i + 1);
        record->width = 8;
        record->height = 16;
        record->tiles = 1;
        record->span_tokens = record->token_count = 2;
        for (uint32_t c = 0; c < 3; c++)
            record->scale[c] = 1.0f;
    }
    part.bytes = image_record_place(part.records, 2);
    memset((uint8_t *)&part + part.records[1].pixels_offset, 7, part.records[1].pixels_bytes);
    return part;
}

static enum result copy(struct sequence_images *images, const struct part *part)
{
    return sequence_images_copy(images, (const uint8_t *)part, part->bytes, 2, prompt,
                                PROMPT_TOKENS, NULL);
}

static void test_copy_checks_records_and_placeholders(void **state)
{
    (void)state;
    struct part part = make_part();
    struct sequence_images images;
    assert_int_equal(copy(&images, &part), RESULT_OK);
    assert_int_equal(sequence_images_pixels(&images, 1)[0], 7);
    sequence_images_fini(&images);
    part.records[1].pixels_offset += 64;
    assert_int_equal(copy(&images, &part), RESULT_CORRUPT);
    assert_null(images.part);
    part = make_part();
    part.records[1].first_token = 6;
    assert_int_equal(copy(&images, &part), RESULT_INVALID);
    assert_null(images.tiles);
}

static enum result fit(const struct part *part, const struct image_limits *within)
{
    struct sequence_images images;
    struct error_text error = {""};
    assert_int_equal(copy(&images, part), RESULT_OK);
    enum result result = sequence_images_fit(&images, no_salt, within, &error);
    assert_int_equal(result == RESULT_OK, error.text[0] == '\0');
    sequence_images_fini(&images);
    return result;
}

static void test_fit_refuses_what_cannot_be_encoded(void **state)
{
    (void)state;
    struct part part = make_part();
    assert_int_equal(fit(&part, &limits), RESULT_OK);
    struct image_limits less = limits;
    less.vision = NULL;
    assert_int_equal(fit(&part, &less), RESULT_UNSUPPORTED);
    less = limits;
    less.patch_rows = 7;
    assert_int_equal(fit(&part, &less), RESULT_TOO_LARGE);
    less = limits;
    less.feature_rows = 1;
    assert_int_equal(fit(&part, &less), RESULT_TOO_LARGE);
    less = limits;
    less.whole_tokens = 1;
    assert_int_equal(fit(&part, &less), RESULT_OK); /* this model's spans may be cut */
    struct model_vision whole = vision;
    whole.spans_whole = true;
    less.vision = &whole;
    assert_int_equal(fit(&part, &less), RESULT_TOO_LARGE);
    part.records[0].width = 16; /* four features for two placeholders */
    part.bytes = image_record_place(part.records, 2);
    assert_int_equal(fit(&part, &limits), RESULT_INVALID);
    part.records[0].width = 12; /* no multiple of a merged square */
    part.bytes = image_record_place(part.records, 2);
    assert_int_equal(fit(&part, &limits), RESULT_INVALID);
}

static uint32_t take(struct feature_cache *cache, struct sequence_images *images, uint32_t image)
{
    uint32_t features;
    assert_int_equal(feature_cache_take(cache, &images->images[image].key, &features), RESULT_OK);
    sequence_images_hold(images, image, cache, features);
    return features;
}

static void test_features_are_held_until_they_are_read(void **state)
{
    (void)state;
    struct part part = make_part();
    struct sequence_images images;
    assert_int_equal(copy(&images, &part), RESULT_OK);
    assert_int_equal(sequence_images_fit(&images, no_salt, &limits, NULL), RESULT_OK);
    struct feature_cache *cache = feature_cache_create(16, 4);
    assert_int_equal(sequence_images_wanted(&images, 0), 0);
    assert_int_equal(sequence_images_wanted(&images, 5), 1); /* the first is behind */
    assert_int_equal(sequence_images_wanted(&images, 9), 2);
    uint32_t first = take(cache, &images, 0);
    assert_int_equal(sequence_images_wanted(&images, 0), 1);
    assert_int_equal(sequence_images_ready_tokens(&images, cache, 0), 3);
    feature_cache_set_ready(cache, first);
    assert_int_equal(sequence_images_ready_tokens(&images, cache, 0), 7);
    assert_int_equal(sequence_images_ready_tokens(&images, cache, 4), 3);
    assert_int_equal(sequence_images_ready_tokens(&images, cache, 7), 0);
    feature_cache_set_ready(cache, take(cache, &images, 1));
    assert_int_equal(sequence_images_ready_tokens(&images, cache, 0), UINT32_MAX);
    assert_int_equal(sequence_images_feature_row(&images, 2), ROW_FEATURE_NONE);
    assert_int_equal(sequence_images_feature_row(&images, 4), 1);
    assert_int_equal(sequence_images_feature_row(&images, 7), 2);
    assert_int_equal(sequence_images_feature_row(&images, 9), ROW_FEATURE_NONE);

    sequence_images_release(&images, cache, 4); /* in the middle of the first */
    assert_int_equal(images.held, 2);
    sequence_images_release(&images, cache, 5);
    assert_int_equal(images.held, 1);
    assert_int_equal(feature_cache_figures(cache).kept_images, 1);
    sequence_images_release(&images, cache, UINT32_MAX);
    assert_int_equal(feature_cache_figures(cache).kept_images, 2);
    feature_cache_destroy(cache);
    sequence_images_fini(&images);
}

static void test_images_in_a_cached_prefix_are_hits(void **state)
{
    (void)state;
    struct part part = make_part();
    struct sequence_images images;
    static const uint32_t whose[4] = {1, 2, 3, 4};
    assert_int_equal(copy(&images, &part), RESULT_OK);
    assert_int_equal(sequence_images_fit(&images, whose, &limits, NULL), RESULT_OK);
    assert_memory_equal(images.images[1].key.salt, whose, sizeof whose);
    sequence_images_skip(&images, 4); /* in the middle of the first */
    assert_int_equal(images.hits, 0);
    sequence_images_skip(&images, 8);
    sequence_images_skip(&images, 8);
    assert_int_equal(images.hits, 1);
    assert_true(images.images[0].looked_up && !images.images[1].looked_up);
    sequence_images_fini(&images);
}

static void test_marks_depend_on_content_and_place(void **state)
{
    (void)state;
    struct part part = make_part();
    struct sequence_images images;
    assert_int_equal(copy(&images, &part), RESULT_OK);
    assert_int_equal(sequence_images_fit(&images, no_salt, &limits, NULL), RESULT_OK);
    uint64_t marks[5][2];
    sequence_images_mark(&images, 0, 3, marks[0]);
    assert_int_equal(marks[0][0] | marks[0][1], 0);
    sequence_images_mark(&images, 0, 4, marks[0]);
    sequence_images_mark(&images, 4, 6, marks[1]); /* the second half of it */
    sequence_images_mark(&images, 1, 4, marks[2]); /* elsewhere in a block */
    sequence_images_mark(&images, 4, 8, marks[3]); /* of both */
    part.records[0].content_hash[1] = part.records[0].content_hash[15] = 1;
    sequence_images_fini(&images);
    assert_int_equal(copy(&images, &part), RESULT_OK);
    assert_int_equal(sequence_images_fit(&images, no_salt, &limits, NULL), RESULT_OK);
    sequence_images_mark(&images, 0, 4, marks[4]);
    for (uint32_t i = 0; i < 5; i++) {
        for (uint32_t j = 0; j < i; j++)
            assert_true(marks[i][0] != marks[j][0] && marks[i][1] != marks[j][1]);
    }
    sequence_images_fini(&images);
}

/* The same frames at another time have other positions, and a video's frames are no still image. */
/* Rows attend to the features, so one placeholder stands for all of them, and they are held to the end. */
static void test_crossed_features_are_held_to_the_end(void **state)
{
    (void)state;
    struct part part = make_part();
    struct model_vision crossed = vision;
    struct image_limits wide = limits;
    crossed.crossed_layers = 2;
    wide.vision = &crossed;
    assert_int_equal(fit(&part, &wide), RESULT_INVALID); /* two placeholders */
    for (uint32_t i = 0; i < 2; i++)
        part.records[i].span_tokens = part.records[i].token_count = 1;
    wide.feature_rows = 3;
    assert_int_equal(fit(&part, &wide), RESULT_TOO_LARGE); /* each fits, both do not */
    wide.feature_rows = 16;
    struct sequence_images images;
    struct feature_cache *cache = feature_cache_create(16, 4);
    assert_int_equal(copy(&images, &part), RESULT_OK);
    assert_int_equal(sequence_images_fit(&images, no_salt, &wide, NULL), RESULT_OK);
    assert_int_equal(images.images[0].key.rows, 2);
    assert_int_equal(sequence_images_ready_tokens(&images, cache, 0), 3);
    assert_int_equal(sequence_images_wanted(&images, 9), 0); /* after a cached prefix, too */
    assert_int_equal(sequence_images_ready_tokens(&images, cache, 9), 0);
    for (uint32_t i = 0; i < 2; i++)
        feature_cache_set_ready(cache, take(cache, &images, i));
    assert_int_equal(sequence_images_ready_tokens(&images, cache, 9), UINT32_MAX);
    struct feature_range ranges[SEQUENCE_RANGES_MAX];
    assert_int_equal(sequence_images_ranges(&images, ranges), 2);
    assert_int_equal(ranges[0].first_row, 0);
    assert_int_equal(ranges[0].row_count, 2);
    assert_int_equal(ranges[1].first_row, 2);
    assert_int_equal(sequence_images_crossing(&images, 2, 5).range_count, 0);
    assert_int_equal(sequence_images_crossing(&images, 3, 5).range_count, 1);
    assert_int_equal(sequence_images_crossing(&images, 6, 5).first_range, 5);
    assert_int_equal(sequence_images_crossing(&images, 7, 5).first_range, 6);
    assert_false(sequence_images_crossing(&images, 7, 5).blind);
    sequence_images_release(&images, cache, 10);
    assert_int_equal(images.held, 2);
    sequence_images_release(&images, cache, UINT32_MAX);
    assert_int_equal(images.held, 0);
    sequence_images_fini(&images);
    feature_cache_destroy(cache);
}

/* Two images in canvases of up to two squares of 8 x 8 pixels: rows before the first see all of both, empty squares too,
 * so nothing runs before both are ready, and the first tokens have other names with other images. */
static void test_rows_before_images_see_them(void **state)
{
    (void)state;
    struct part part = make_part();
    struct model_vision canvas = vision;
    struct image_limits wide = limits;
    canvas.crossed_layers = 2;
    canvas.merge_side = 1;
    canvas.canvas_side = canvas.canvas_tiles = 2;
    wide.vision = &canvas;
    wide.feature_rows = 20;
    for (uint32_t i = 0; i < 2; i++)
        part.records[i].span_tokens = part.records[i].token_count = 1;
    part.records[1].height = 8;
    (void)image_record_place(part.records, 2);
    part.bytes = part.records[1].pixels_offset + part.records[1].pixels_bytes;
    struct sequence_images images;
    struct feature_cache *cache = feature_cache_create(20, 4);
    assert_int_equal(copy(&images, &part), RESULT_OK);
    assert_int_equal(sequence_images_fit(&images, no_salt, &wide, NULL), RESULT_OK);
    feature_cache_set_ready(cache, take(cache, &images, 0));
    assert_int_equal(sequence_images_ready_tokens(&images, cache, 0), 0);
    feature_cache_set_ready(cache, take(cache, &images, 1));
    assert_int_equal(sequence_images_ready_tokens(&images, cache, 0), UINT32_MAX);
    struct feature_range ranges[SEQUENCE_RANGES_MAX];
    static const struct feature_range wanted[] = {{0, 10}, {10, 5}, {0, 10}, {10, 10}};
    assert_int_equal(sequence_images_ranges(&images, ranges), 4);
    assert_memory_equal(ranges, wanted, sizeof wanted);
    struct row_crossing before = sequence_images_crossing(&images, 2, 7);
    assert_true(before.blind && before.first_range == 9 && before.range_count == 2);
    struct row_crossing after = sequence_images_crossing(&images, 8, 7);
    assert_true(!after.blind && after.first_range == 8 && after.range_count == 1);
    images.part[offsetof(struct image_record, first_token) + sizeof(struct image_record)] = 4;
    after = sequence_images_crossing(&images, 8, 7); /* nothing between them */
    assert_true(after.first_range == 7 && after.range_count == 2);
    images.part[offsetof(struct image_record, first_token) + sizeof(struct image_record)] = 7;
    uint64_t first[2], other[2];
    sequence_images_mark(&images, 0, 3, first);
    images.part[sizeof(struct image_record)]++; /* the second image's hash */
    sequence_images_mark(&images, 0, 3, other);
    assert_true(first[0] != 0 && first[0] != other[0]);
    sequence_images_release(&images, cache, UINT32_MAX);
    sequence_images_fini(&images);
    feature_cache_destroy(cache);
}

static void test_marks_depend_on_time(void **state)
{
    (void)state;
    static const struct model_vision films = {.patch_side = 4,
                                              .merge_side = 2,
                                              .frames = 2,
                                              .hidden = 8,
                                              .text_hidden = 8,
                                              .stages = 3,
                                              .grid_positions = true};
    static const uint32_t film[] = {1, 1, 1, 9, 9, 9, 9, 1, 1, 1};
    struct image_limits wide = limits;
    uint64_t marks[3][2];
    wide.vision = &films;
    for (uint32_t i = 0; i < 3; i++) {
        struct part part = make_part();
        struct sequence_images images;
        part.records[0].frames = part.records[1].frames = 2;
        part.records[1].first_token = 5;
        part.records[1].joined = i > 0;
        part.records[1].time = i > 0 ? i : 0;
        part.bytes = image_record_place(part.records, 2);
        assert_int_equal(sequence_images_copy(&images, (const uint8_t *)&part, part.bytes, 2, film,
                                              PROMPT_TOKENS, NULL),
                         RESULT_OK);
        assert_int_equal(sequence_images_fit(&images, no_salt, &limits, NULL), RESULT_INVALID);
        assert_int_equal(sequence_images_fit(&images, no_salt, &wide, NULL), RESULT_OK);
        assert_int_equal(images.images[0].key.shape.frames, 2);
        sequence_images_mark(&images, 3, 7, marks[i]);
        for (uint32_t j = 0; j < i; j++)
            assert_true(marks[i][0] != marks[j][0] && marks[i][1] != marks[j][1]);
        sequence_images_fini(&images);
    }
}

/* The rows around an image and after its lines are placeholders too, in one run. */
static void test_frames_have_more_rows(void **state)
{
    (void)state;
    static const struct model_vision frames = {.patch_side = 4,
                                               .merge_side = 2,
                                               .hidden = 8,
                                               .text_hidden = 8,
                                               .stages = 3,
                                               .framed = true,
                                               .grid_positions = true};
    static const uint32_t framed[] = {1, 9, 9, 9, 9, 1, 1, 1, 1, 1};
    struct image_limits wide = limits;
    wide.vision = &frames;
    for (uint32_t rows = 3; rows <= 4; rows++) {
        struct part part = make_part();
        struct sequence_images images;
        part.records[0].width = part.records[0].height = 8;
        part.records[0].tiles = 1;
        part.records[0].first_token = 1;
        part.records[0].span_tokens = part.records[0].token_count = rows;
        part.bytes = image_record_place(part.records, 1);
        assert_int_equal(sequence_images_copy(&images, (const uint8_t *)&part, part.bytes, 1,
                                              framed, PROMPT_TOKENS, NULL),
                         RESULT_OK);
        assert_int_equal(sequence_images_fit(&images, no_salt, &wide, NULL),
                         rows == 4 ? RESULT_OK : RESULT_INVALID);
        if (rows == 4) {
            struct rope_position at = image_tiles_position(images.tiles, 1, 3);
            assert_true(at.time == 0 && at.height == 0 && at.width == 1);
            assert_int_equal(image_tiles_position(images.tiles, 1, 4).width, 4);
        }
        sequence_images_fini(&images);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_have_more_rows),
        cmocka_unit_test(test_copy_checks_records_and_placeholders),
        cmocka_unit_test(test_fit_refuses_what_cannot_be_encoded),
        cmocka_unit_test(test_features_are_held_until_they_are_read),
        cmocka_unit_test(test_images_in_a_cached_prefix_are_hits),
        cmocka_unit_test(test_marks_depend_on_content_and_place),
        cmocka_unit_test(test_crossed_features_are_held_to_the_end),
        cmocka_unit_test(test_rows_before_images_see_them),
        cmocka_unit_test(test_marks_depend_on_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
