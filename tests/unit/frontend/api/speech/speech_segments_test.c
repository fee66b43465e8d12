/*
 * Segments of a window: pairs of timestamps, a single one at the end, one without a pair, none; and where the next window
 * begins. Expected values follow transformers' _retrieve_segment; whole transcripts are compared in
 * tests/api/transcriptions_test.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/api/speech/speech_segments.h"

#define T 1000u /* the first timestamp */

struct expected {
    uint32_t ids[10];
    uint32_t count;
    uint32_t segments;
    struct speech_segment found[4];
    uint32_t advance;
};

static void test_windows(void **state)
{
    (void)state;
    static const struct expected cases[] = {
        /* a pair: what follows is dropped, and the next window begins there */
        {{T + 1, 5, T + 9, T + 9, 6}, 5, 1, {{0, 3, 1, 9}}, 18},
        {{T, 5, T + 9, T + 12, 6, T + 20, T + 20}, 7, 2, {{0, 3, 0, 9}, {3, 6, 12, 20}}, 40},
        /* a single one at the end: no more speech */
        {{T, 5, T + 9, T + 9, 6, T + 20}, 6, 2, {{0, 3, 0, 9}, {3, 6, 9, 20}}, 100},
        /* no pair: the last timestamp, or all of the window */
        {{T, 5, 6, T + 9}, 4, 1, {{0, 4, 0, 9}}, 100},
        {{T, 5, 6}, 3, 1, {{0, 3, 0, 50}}, 100},
        {{5, 6}, 2, 1, {{0, 2, 0, 50}}, 100},
        {{0}, 0, 1, {{0, 0, 0, 50}}, 100},
        /* a pair at 0, or beyond the audio, moves by the window */
        {{T, T, 5}, 3, 1, {{0, 1, 0, 0}}, 100},
        {{T, 5, T + 60, T + 61, 5}, 5, 1, {{0, 3, 0, 60}}, 100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct expected *c = &cases[i];
        struct speech_segment found[11];
        uint32_t advance = 0;
        const struct speech_window_tokens window = {
            .ids = c->ids, .count = c->count, .first_stamp = T, .rows = 100};
        assert_int_equal(speech_segments_find(&window, found, &advance), c->segments);
        assert_memory_equal(found, c->found, c->segments * sizeof found[0]);
        assert_int_equal(advance, c->advance);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_windows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
