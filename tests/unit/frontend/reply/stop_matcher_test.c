/*
 * Stop strings are found wherever pieces end, nothing of them is ever told, and which of them ends
 * a text does not depend on how it is cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/reply/stop_matcher.h"

static const struct stop_string stops[] = {{"abcde", 5}, {"bcd", 3}, {"xbcd", 4}, {"zz", 2}};

static void expect(const char *text, const char *left, int found)
{
    size_t length = strlen(text);
    for (size_t piece = 1; piece <= length; piece++) {
        struct stop_matcher matcher;
        stop_matcher_init(&matcher, stops, 4);
        struct text_buffer out = {0};
        for (size_t at = 0; at < length; at += piece)
            (void)stop_matcher_push(&matcher, text + at, piece < length - at ? piece : length - at,
                                    &out);
        stop_matcher_release(&matcher, &out);
        assert_string_equal(out.bytes ? out.bytes : "", left);
        assert_int_equal(matcher.found, found);
        text_buffer_fini(&out);
        stop_matcher_fini(&matcher);
    }
}

static void the_first_to_be_complete_wins_in_any_pieces(void **state)
{
    (void)state;
    expect("1 abcde zz", "1 a", 1); /* within abcde */
    expect("1 xbcd", "1 ", 2);      /* of two that end together the longer */
    expect("1 abc zz bcd", "1 abc ", 3);
    expect("1 abc z", "1 abc z", -1);
}

/* Against the obvious definition: cut the whole text at the first stop string. None of these ends
 * within another. */
static void random_texts_agree_with_the_definition(void **state)
{
    (void)state;
    static const struct stop_string words[] = {{"abcab", 5}, {"ccb", 3}, {"aaaa", 4}};
    uint32_t random = 12345;
    for (int round = 0; round < 3000; round++) {
        char text[40];
        size_t length = 0;
        for (; length < sizeof text - 1; length++) {
            random = random * 1664525u + 1013904223u;
            text[length] = (char)('a' + (random >> 24) % 3);
        }
        text[length] = '\0';
        struct stop_matcher matcher;
        stop_matcher_init(&matcher, words, 3);
        struct text_buffer out = {0};
        for (size_t at = 0; at < length; at++) {
            if (stop_matcher_push(&matcher, text + at, 1, &out))
                break;
        }
        stop_matcher_release(&matcher, &out);
        size_t cut = length;
        for (size_t i = 0; i < 3; i++) {
            const char *found = strstr(text, words[i].bytes);
            if (found && (size_t)(found - text) < cut)
                cut = (size_t)(found - text);
        }
        text[cut] = '\0';
        assert_string_equal(out.bytes ? out.bytes : "", text);
        assert_true(!stop_matcher_string(&matcher) == (cut == length));
        text_buffer_fini(&out);
        stop_matcher_fini(&matcher);
    }
}

static void released_text_begins_no_stop(void **state)
{
    (void)state;
    struct stop_matcher matcher;
    stop_matcher_init(&matcher, stops, 4);
    struct text_buffer out = {0};
    assert_false(stop_matcher_push(&matcher, "az", 2, &out));
    assert_string_equal(out.bytes, "a");
    stop_matcher_release(&matcher, &out);
    assert_false(stop_matcher_push(&matcher, "zb", 2, &out));
    assert_string_equal(out.bytes, "azz");
    stop_matcher_release(&matcher, &out);
    assert_string_equal(out.bytes, "azzb");
    text_buffer_fini(&out);
    stop_matcher_fini(&matcher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_to_be_complete_wins_in_any_pieces),
        cmocka_unit_test(random_texts_agree_with_the_definition),
        cmocka_unit_test(released_text_begins_no_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
