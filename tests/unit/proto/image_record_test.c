/*
 * Rules I1-I9 of image records, each broken alone in the second of two; the limits themselves pass.
 */
// tags: threads
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/image_record.h"

#define PROMPT_TOKENS 40u

static struct image_record valid_image(uint32_t first_token)
{
    return (struct image_record){.content_hash = {3},
                                 .width = 5,
                                 .height = 7,
                                 .tiles = 2,
                                 .first_token = first_token,
                                 .span_tokens = 10,
                                 .token_count = 6,
                                 .scale = {0.5f, 1.0f, 2.0f},
                                 .bias = {-1.0f, 0.0f, 1.0f}};
}

struct pair {
    struct image_record records[2];
    uint64_t image_bytes;
};

static struct pair valid_pair(void)
{
    struct pair pair = {.records = {valid_image(3), valid_image(13)}};
    pair.image_bytes = image_record_place(pair.records, 2);
    return pair;
}

static enum result check(const struct pair *pair, struct error_text *error)
{
    return image_record_check(pair->records, 2, PROMPT_TOKENS, pair->image_bytes, error);
}

/* After whatever was changed, the places are made to fit again. */
static void assert_breaks(struct pair *pair, const char *rule)
{
    pair->image_bytes = image_record_place(pair->records, 2);
    struct error_text error = {""};
    assert_int_equal(check(pair, &error), RESULT_CORRUPT);
    assert_memory_equal(error.text, rule, strlen(rule));
    assert_int_equal(error.text[strlen(rule)], ':');
    assert_int_equal(check(pair, NULL), RESULT_CORRUPT);
}

static void valid_passes(void **state)
{
    (void)state;
    struct pair pair = valid_pair();
    assert_int_equal(check(&pair, NULL), RESULT_OK);
    assert_int_equal(pair.records[0].pixels_offset, 256);
    assert_int_equal(pair.records[0].pixels_bytes, 2 * 5 * 7 * 3);
    assert_int_equal(pair.records[1].pixels_offset, 256 + 256); /* 210 bytes, aligned */
    assert_int_equal(pair.image_bytes, 512 + 210);
    assert_int_equal(image_record_place(NULL, 0), 0);
    assert_int_equal(image_record_check(NULL, 0, 1, 0, NULL), RESULT_OK);
}

static void limits_pass(void **state)
{
    (void)state;
    struct image_record record = valid_image(0);
    record.width = LIMIT_IMAGE_SIDE;
    record.height = LIMIT_IMAGE_PIXELS / LIMIT_IMAGE_SIDE;
    record.tiles = 1;
    record.span_tokens = LIMIT_CONTEXT_TOKENS;
    record.token_count = LIMIT_IMAGE_TOKENS;
    record.scale[2] = -IMAGE_SCALE_MAX;
    uint64_t bytes = image_record_place(&record, 1);
    assert_int_equal(image_record_check(&record, 1, LIMIT_CONTEXT_TOKENS, bytes, NULL), RESULT_OK);
    record.height = LIMIT_IMAGE_SIDE;
    record.width = 1;
    bytes = image_record_place(&record, 1);
    assert_int_equal(image_record_check(&record, 1, LIMIT_CONTEXT_TOKENS, bytes, NULL), RESULT_OK);
    record.height = 1;
    record.span_tokens = record.token_count = 1;
    bytes = image_record_place(&record, 1);
    assert_int_equal(image_record_check(&record, 1, 1, bytes, NULL), RESULT_OK);
    record.tiles = record.span_tokens = record.token_count = LIMIT_IMAGE_TILES;
    bytes = image_record_place(&record, 1);
    assert_int_equal(image_record_check(&record, 1, LIMIT_IMAGE_TILES, bytes, NULL), RESULT_OK);
}

static void i1_hash(void **state)
{
    (void)state;
    struct pair pair = valid_pair();
    pair.records[1].content_hash[0] = 0;
    assert_breaks(&pair, "I1");
}

/* Words of the second record at `offset` that break `rule`. */
static void break_words(const char *rule, size_t offset, const uint32_t *wrong, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct pair pair = valid_pair();
        memcpy((char *)&pair.records[1] + offset, &wrong[i], sizeof wrong[i]);
        assert_breaks(&pair, rule);
    }
}
#define BREAK_WORDS(rule, field, ...)                                                              \
    break_words(rule, offsetof(struct image_record, field), (const uint32_t[]){__VA_ARGS__},       \
                sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void i2_sizes(void **state)
{
    (void)state;
    BREAK_WORDS("I2", width, 0, LIMIT_IMAGE_SIDE + 1, UINT32_MAX);
    BREAK_WORDS("I2", height, 0, LIMIT_IMAGE_SIDE + 1, UINT32_MAX);
    BREAK_WORDS("I2", tiles, 0, LIMIT_IMAGE_TILES + 1, UINT32_MAX);
    struct pair pair = valid_pair();
    pair.records[1].width = LIMIT_IMAGE_SIDE;
    pair.records[1].height = LIMIT_IMAGE_PIXELS / LIMIT_IMAGE_SIDE; /* of each of two tiles */
    assert_breaks(&pair, "I2");
}

static void i3_spans(void **state)
{
    (void)state;
    BREAK_WORDS("I3", tile_lines, LIMIT_IMAGE_TOKENS - 1, LIMIT_IMAGE_SIDE + 1, UINT32_MAX);
    BREAK_WORDS("I3", first_token, 12, 31, PROMPT_TOKENS, UINT32_MAX, UINT32_MAX - 5);
    BREAK_WORDS("I3", span_tokens, 0, 5, 28, UINT32_MAX);
    BREAK_WORDS("I3", token_count, 0, 5, 12, UINT32_MAX - 1);
    struct image_record record = valid_image(0);
    record.span_tokens = 2 * LIMIT_IMAGE_TOKENS;
    record.token_count = LIMIT_IMAGE_TOKENS + 2;
    uint64_t bytes = image_record_place(&record, 1);
    assert_int_equal(image_record_check(&record, 1, LIMIT_CONTEXT_TOKENS, bytes, NULL),
                     RESULT_CORRUPT);
}

static void i4_numbers(void **state)
{
    (void)state;
    const float wrong[] = {NAN, INFINITY, -INFINITY, 1001.0f, -1001.0f};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct pair pair = valid_pair();
        pair.records[1].scale[i % 3] = wrong[i];
        assert_breaks(&pair, "I4");
        pair = valid_pair();
        pair.records[1].bias[i % 3] = wrong[i];
        assert_breaks(&pair, "I4");
    }
    struct pair pair = valid_pair();
    pair.records[1].scale[1] = 0.0f;
    assert_breaks(&pair, "I4");
}

static void i5_places(void **state)
{
    (void)state;
    const int64_t moves[] = {-64, -1, 1, 64};
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        for (uint32_t which = 0; which < 5; which++) {
            struct pair pair = valid_pair();
            uint64_t *fields[] = {&pair.records[0].pixels_offset, &pair.records[0].pixels_bytes,
                                  &pair.records[1].pixels_offset, &pair.records[1].pixels_bytes,
                                  &pair.image_bytes};
            *fields[which] += (uint64_t)moves[i];
            struct error_text error = {""};
            assert_int_equal(check(&pair, &error), RESULT_CORRUPT);
            assert_memory_equal(error.text, "I5:", 3);
        }
    }
}

/* The second record of two images begins `before` tokens after the first and ends `after` before the end. */
static struct pair valid_twins(uint32_t before, uint32_t after)
{
    struct pair pair = {.records = {valid_image(3), valid_image(3)}};
    pair.records[0].tiles = pair.records[1].tiles = 1;
    pair.records[1].first_token = 3 + pair.records[0].span_tokens + before;
    pair.records[1].span_tokens = PROMPT_TOKENS - after - pair.records[1].first_token;
    pair.image_bytes = image_record_place(pair.records, 2);
    return pair;
}

static void i6_twins(void **state)
{
    (void)state;
    BREAK_WORDS("I6", twins, 1, 2, 4, UINT32_MAX); /* it has two tiles */
    struct pair pair = valid_twins(2, 2);
    for (uint32_t twins = 0; twins < 4; twins++) {
        pair.records[1].twins = twins;
        assert_int_equal(check(&pair, NULL), RESULT_OK);
    }
    pair.records[0].twins = IMAGE_TWINS_AFTER;
    assert_int_equal(check(&pair, NULL), RESULT_OK);
    pair.records[1].twins = 4;
    assert_breaks(&pair, "I6");
    pair = valid_twins(1, 2);
    pair.records[1].twins = IMAGE_TWINS_BEFORE;
    assert_breaks(&pair, "I6");
    pair = valid_twins(1, 2);
    pair.records[0].twins = IMAGE_TWINS_AFTER;
    assert_breaks(&pair, "I6");
    pair = valid_twins(2, 1);
    pair.records[1].twins = IMAGE_TWINS_AFTER;
    assert_breaks(&pair, "I6");
}

/* The second record has two tiles. */
static void i7_mosaic(void **state)
{
    (void)state;
    BREAK_WORDS("I7", mosaic[0], 1, UINT32_MAX);
    BREAK_WORDS("I7", mosaic[1], 1);
    BREAK_WORDS("I7", mosaic[2], 1);
    BREAK_WORDS("I7", mosaic[5], 1);
    struct pair pair = valid_pair();
    uint32_t wrong[][IMAGE_MOSAIC_SIZES] = {{3, 1, 1, 1, 1, 1},
                                            {1, 1, LIMIT_IMAGE_SIDE + 1, 1, 1, 1}};
    for (size_t i = 0; i < 2; i++) {
        memcpy(pair.records[1].mosaic, wrong[i], sizeof wrong[i]);
        assert_breaks(&pair, "I7");
    }
    struct error_text error = {""};
    memcpy(pair.records[1].mosaic, (const uint32_t[]){1, 1, 2, 2, 2, 2}, sizeof wrong[0]);
    assert_int_equal(image_record_runs(&pair.records[1]), 1);
    assert_int_equal(check(&pair, &error), RESULT_OK);
    pair.records[1].mosaic[0] = 2; /* without a first tile */
    assert_int_equal(check(&pair, &error), RESULT_OK);
    pair.records[1].tile_lines = 1;
    assert_int_equal(check(&pair, &error), RESULT_OK);
    pair.records[1].tile_lines = 2;
    assert_breaks(&pair, "I7");
    /* A mosaic of no tiles has one tile beside it. */
    for (size_t none = 0; none < 2; none++) {
        pair = valid_pair();
        pair.records[1].tiles = 1;
        memcpy(pair.records[1].mosaic, (const uint32_t[]){1, 1, 1, 1, 1, 1}, sizeof wrong[0]);
        pair.records[1].mosaic[none] = 0;
        assert_breaks(&pair, "I7");
    }
}

/* Two temporal patches of a video without tokens between. */
static struct pair valid_video(void)
{
    struct pair pair = {.records = {valid_image(3), valid_image(3)}};
    for (uint32_t i = 0; i < 2; i++) {
        pair.records[i].tiles = 1;
        pair.records[i].frames = 2;
        pair.records[i].first_token = 3 + i * pair.records[0].span_tokens;
    }
    pair.records[1].joined = 1;
    pair.records[1].time = LIMIT_VIDEO_TIME;
    pair.image_bytes = image_record_place(pair.records, 2);
    return pair;
}

static void i8_videos(void **state)
{
    (void)state;
    struct pair pair = valid_video();
    assert_int_equal(check(&pair, NULL), RESULT_OK);
    assert_int_equal(pair.records[0].pixels_bytes,
                     2ull * pair.records[0].width * pair.records[0].height * IMAGE_PIXEL_BYTES);
#define BREAK_VIDEO(record, field, value)                                                          \
    do {                                                                                           \
        pair = valid_video();                                                                      \
        pair.records[record].field = value;                                                        \
        assert_breaks(&pair, "I8");                                                                \
    } while (0)
    BREAK_VIDEO(0, joined, 1); /* to nothing */
    BREAK_VIDEO(0, time, 1);
    BREAK_VIDEO(0, frames, 3);
    BREAK_VIDEO(1, frames, 1);
    BREAK_VIDEO(1, tiles, 2);
    BREAK_VIDEO(1, joined, 0); /* at a time of its own */
    BREAK_VIDEO(1, joined, 2);
    BREAK_VIDEO(1, time, LIMIT_VIDEO_TIME + 1);
    BREAK_VIDEO(1, first_token, pair.records[1].first_token + 1);
    BREAK_VIDEO(1, width, pair.records[1].width + 1);
    BREAK_VIDEO(1, height, pair.records[1].height + 1);
#undef BREAK_VIDEO
    for (uint32_t frames = 0; frames < 2; frames++) { /* single images join to nothing */
        pair = valid_video();
        pair.records[1].frames = pair.records[0].frames = frames;
        assert_breaks(&pair, "I8");
    }
    pair = valid_video();
    pair.records[1].frames = pair.records[0].frames = LIMIT_PATCH_FRAMES + 1;
    assert_breaks(&pair, "I2");
}

static struct pair valid_sound(void)
{
    struct pair pair = valid_pair();
    pair.records[1].tiles = pair.records[1].sound = 1;
    pair.records[1].width = LIMIT_AUDIO_MELS;
    pair.records[1].height = 3001;
    pair.image_bytes = image_record_place(pair.records, 2);
    return pair;
}

static void i9_sounds(void **state)
{
    (void)state;
    struct pair pair = valid_sound();
    assert_int_equal(check(&pair, NULL), RESULT_OK);
    assert_int_equal(pair.records[1].pixels_bytes, 4ull * LIMIT_AUDIO_MELS * 3001);
#define BREAK_SOUND(rule, field, value)                                                            \
    do {                                                                                           \
        pair = valid_sound();                                                                      \
        pair.records[1].field = value;                                                             \
        assert_breaks(&pair, rule);                                                                \
    } while (0)
    BREAK_SOUND("I9", sound, 2);
    BREAK_SOUND("I9", sound, UINT32_MAX);
    BREAK_SOUND("I9", tiles, 2);
    BREAK_SOUND("I9", frames, 2);
    BREAK_SOUND("I9", tile_lines, 2);
    BREAK_SOUND("I9", width, LIMIT_AUDIO_MELS + 1);
    BREAK_SOUND("I2", height, LIMIT_IMAGE_SIDE + 1);
    BREAK_SOUND("I8", joined, 1);
#undef BREAK_SOUND
}

/* A patch, a piece of the video's sound, and perhaps another part, without tokens between. */
static void i8_sounds_of_videos(void **state)
{
    (void)state;
    struct pair pair = valid_video();
    struct image_record *piece = &pair.records[1];
    piece->frames = 0;
    piece->sound = 1;
    piece->width = 80;
    piece->time = 7;
    pair.image_bytes = image_record_place(pair.records, 2);
    assert_int_equal(check(&pair, NULL), RESULT_OK);
    piece->time = LIMIT_VIDEO_TIME + 1;
    assert_breaks(&pair, "I8");
    piece->time = 7;
    piece->first_token++;
    assert_breaks(&pair, "I8");
    piece->first_token--;
    pair.records[0].frames = 0;
    assert_breaks(&pair, "I8");
    pair.records[0].frames = 2;
    struct image_record three[3] = {pair.records[0], *piece, pair.records[0]};
    three[2].first_token = piece->first_token + piece->span_tokens;
    three[2].joined = 1;
    for (uint32_t wide = 0; wide < 2;
         wide++) { /* the next patch is as large as the one before the piece */
        three[2].width += wide;
        uint64_t bytes = image_record_place(three, 3);
        assert_int_equal(image_record_check(three, 3, PROMPT_TOKENS, bytes, NULL),
                         wide ? RESULT_CORRUPT : RESULT_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_passes),
        cmocka_unit_test(limits_pass),
        cmocka_unit_test(i1_hash),
        cmocka_unit_test(i2_sizes),
        cmocka_unit_test(i3_spans),
        cmocka_unit_test(i4_numbers),
        cmocka_unit_test(i5_places),
        cmocka_unit_test(i6_twins),
        cmocka_unit_test(i7_mosaic),
        cmocka_unit_test(i8_videos),
        cmocka_unit_test(i8_sounds_of_videos),
        cmocka_unit_test(i9_sounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
