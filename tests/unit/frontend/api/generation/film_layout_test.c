/*
 * The order of a video and its sound, compared with transformers' rule for single tokens
 * (Qwen2_5OmniProcessor.get_chunked_index), and what their records say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/api/generation/film_layout.h"
#include "proto/must.h"

#define TOKENS_MOST 8192u

static const struct video_processor video = {
    .rule = VIDEO_RULE_OMNI, .time_scale = 25, .soft = "v", .marker = "v"};
static const struct audio_processor audio = {
    .piece_time = 50, .time_scale = 25, .soft = "a", .begin = "<", .end = ">"};
static struct film_layout layout;

struct film {
    struct video_plan seen;
    struct audio_plan heard;
    struct film_parts parts;
};

static void make_film(uint32_t patches, double rate, uint32_t patch_tokens, uint32_t tokens,
                      struct film *film)
{
    *film = (struct film){
        .seen = {.patches = patches, .asked = rate, .patch_tokens = patch_tokens},
        .heard = {.tokens = tokens, .pieces = (tokens + 49) / 50, .piece_tokens = 50},
    };
    film->parts = (struct film_parts){&video, &film->seen, &audio, &film->heard};
}

/* Ends of the pieces of tokens at these times: a piece ends before the first token that its end has
 * passed. */
static uint32_t piece_ends(const double *times, uint32_t count, uint32_t *ends)
{
    uint32_t pieces = 0;
    for (uint32_t i = 0; i < count; i++)
        if (times[i] >= (pieces + 1) * 50.0)
            ends[pieces++] = i;
    ends[pieces++] = count;
    return pieces;
}

/* The text that transformers writes. */
static void reference(const struct film *film, char *text)
{
    static double times[2][TOKENS_MOST];
    static uint32_t ends[2][TOKENS_MOST];
    uint32_t counts[2] = {film->seen.patches * film->seen.patch_tokens, film->heard.tokens};
    uint32_t pieces[2], at[2] = {0, 0};
    for (uint32_t i = 0; i < counts[0]; i++)
        times[0][i] = i / film->seen.patch_tokens * (2 / film->seen.asked) * 25;
    for (uint32_t i = 0; i < counts[1]; i++)
        times[1][i] = i;
    for (uint32_t kind = 0; kind < 2; kind++)
        pieces[kind] = piece_ends(times[kind], counts[kind], ends[kind]);
    *text++ = '<';
    for (uint32_t piece = 0; piece < pieces[0] || piece < pieces[1]; piece++)
        for (uint32_t kind = 0; kind < 2; kind++)
            for (; piece < pieces[kind] && at[kind] < ends[kind][piece]; at[kind]++)
                *text++ = "va"[kind];
    strcpy(text, ">");
}

static void order_is_that_of_transformers(void **state)
{
    (void)state;
    static const struct {
        uint32_t patches;
        double rate;
        uint32_t patch_tokens;
        uint32_t tokens;
    } rows[] = {{1, 2, 1, 1},    {1, 2, 6, 300},  {40, 2, 6, 3},   {10, 2, 4, 250}, {9, 2, 4, 251},
                {11, 1, 3, 550}, {11, 3, 3, 130}, {7, 1.5, 5, 90}, {33, 7, 2, 400}, {5, 4, 8, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static char expected[TOKENS_MOST];
        struct film film;
        struct error_text error = {""};
        struct text_buffer text = {0};
        make_film(rows[i].patches, rows[i].rate, rows[i].patch_tokens, rows[i].tokens, &film);
        reference(&film, expected);
        if (film_layout_make(&film.parts, &layout, &error) != RESULT_OK)
            fail_msg("%s", error.text);
        assert_int_equal(layout.count, film.seen.patches + film.heard.pieces);
        film_layout_expand(&film.parts, &layout, &text);
        text_buffer_append(&text, "", 1);
        assert_string_equal(text.bytes, expected);
        text_buffer_fini(&text);
    }
}

static void records_have_their_times(void **state)
{
    (void)state;
    static struct image_record records[16];
    struct film film;
    make_film(4, 2, 6, 130, &film);
    must(film_layout_make(&film.parts, &layout, NULL) == RESULT_OK);
    film_layout_records(&film.parts, &layout, records);
    /* two patches, a piece, two patches, a piece, a piece */
    static const uint32_t pieces[] = {2, 5, 6};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(layout.pieces[i], pieces[i]);
        assert_int_equal(records[pieces[i]].time, 50 * i);
    }
    for (uint32_t at = 0; at < 7; at++) {
        assert_int_equal(records[at].joined, at > 0);
        assert_int_equal(records[at].twins, at == 0   ? IMAGE_TWINS_BEFORE
                                            : at == 6 ? IMAGE_TWINS_AFTER
                                                      : 0);
    }
}

static void films_that_do_not_fit(void **state)
{
    (void)state;
    struct film film;
    struct error_text error = {""};
    make_film(2, 0.9, 1, 10, &film);
    assert_int_equal(film_layout_make(&film.parts, &layout, &error), RESULT_INVALID);
    assert_non_null(strstr(error.text, "fps"));
    make_film(384, 2, 1, 50 * (LIMIT_REQUEST_RECORDS - 383), &film);
    assert_int_equal(film_layout_make(&film.parts, &layout, &error), RESULT_TOO_LARGE);
    make_film(2, 2, 1, 10, &film);
    struct audio_processor other = audio;
    other.piece_time = 0;
    film.parts.audio = &other;
    assert_int_equal(film_layout_make(&film.parts, &layout, &error), RESULT_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_that_of_transformers),
        cmocka_unit_test(records_have_their_times),
        cmocka_unit_test(films_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
