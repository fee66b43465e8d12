/*
 * Stop strings are found wherever pieces end, no byte of them is released, and which stop string
 * ends a text does not depend on how it is cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/reply/stop_matcher.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct stop_string stops[] = {{"abcde", 5}, {"bcd", 3}, {"xbcd", 4}, {"zz", 2}};

/* In pieces of every length: the text that is left, and the index of the stop string found. */
static void expect_of(const struct stop_string list[], size_t count, const char *text,
                      const char *left, int found)
{
    size_t length = strlen(text);
    for (size_t piece = 1; piece <= length; piece++) {
        struct stop_matcher matcher;
        stop_matcher_init(&matcher, list, count);
        struct text_buffer out = {0};
        for (size_t at = 0; at < length; at += piece)
            (void)stop_matcher_push(&matcher, text + at, piece < length - at ? piece : length - at,
                                    &out);
        stop_matcher_release(&matcher, &out);
        assert_string_equal(out.bytes ? out.bytes : "", left);
        assert_int_equal(matcher.found, found);
        if (found >= 0)
            assert_string_equal(stop_matcher_string(&matcher), list[found].bytes);
        else
            assert_null(stop_matcher_string(&matcher));
        text_buffer_fini(&out);
        stop_matcher_fini(&matcher);
    }
}

static void expect(const char *text, const char *left, int found)
{
    expect_of(stops, COUNT(stops), text, left, found);
}

static void the_first_to_be_complete_wins_in_any_pieces(void **state)
{
    (void)state;
    expect("1 abcde zz", "1 a", 1); /* within abcde */
    expect("1 xbcd", "1 ", 2);      /* of two that end together the longer */
    expect("1 abc zz bcd", "1 abc ", 3);
    expect("1 abc z", "1 abc z", -1);
}

/* In either order of the list, since neither the first nor the last in the list may win. */
static void of_two_that_end_together_the_longer_wins(void **state)
{
    (void)state;
    static const struct stop_string short_first[] = {{"cd", 2}, {"bcd", 3}};
    static const struct stop_string long_first[] = {{"bcd", 3}, {"cd", 2}};
    expect_of(short_first, COUNT(short_first), "abcd!", "a", 1);
    expect_of(long_first, COUNT(long_first), "abcd!", "a", 0);
}

static void of_two_equal_ones_the_first_wins(void **state)
{
    (void)state;
    static const struct stop_string twice[] = {{"cd", 2}, {"cd", 2}};
    expect_of(twice, COUNT(twice), "abcd!", "ab", 0);
}

/* The end decides, not the beginning: the shorter string is complete one byte earlier. */
static void of_two_that_begin_together_the_shorter_wins(void **state)
{
    (void)state;
    static const struct stop_string nested[] = {{"abc", 3}, {"ab", 2}};
    expect_of(nested, COUNT(nested), "1abc", "1", 1);
    static const struct stop_string overlapping[] = {{"bcd", 3}, {"abc", 3}};
    expect_of(overlapping, COUNT(overlapping), "1abcd", "1", 1);
    expect_of(overlapping, COUNT(overlapping), "1bcd", "1", 0);
}

static void a_stop_string_of_one_byte_holds_nothing_back(void **state)
{
    (void)state;
    static const struct stop_string one[] = {{"x", 1}};
    struct stop_matcher matcher;
    stop_matcher_init(&matcher, one, COUNT(one));
    struct text_buffer out = {0};
    assert_false(stop_matcher_push(&matcher, "ab", 2, &out));
    assert_string_equal(out.bytes, "ab");
    assert_false(stop_matcher_push(&matcher, "", 0, &out));
    assert_true(stop_matcher_push(&matcher, "xc", 2, &out));
    assert_string_equal(out.bytes, "ab");
    text_buffer_fini(&out);
    stop_matcher_fini(&matcher);
}

/* All but the last byte of the longest string allowed is held, in one piece and byte by byte. */
static void the_longest_beginning_is_held_back(void **state)
{
    (void)state;
    char bytes[LIMIT_STOP_BYTES + 1];
    memset(bytes, 'a', LIMIT_STOP_BYTES - 1);
    bytes[LIMIT_STOP_BYTES - 1] = 'b';
    bytes[LIMIT_STOP_BYTES] = '\0';
    const struct stop_string longest[] = {{bytes, LIMIT_STOP_BYTES}};
    for (size_t piece = 1; piece <= LIMIT_STOP_BYTES - 1; piece += LIMIT_STOP_BYTES - 2) {
        struct stop_matcher matcher;
        stop_matcher_init(&matcher, longest, COUNT(longest));
        struct text_buffer out = {0};
        for (size_t at = 0; at < LIMIT_STOP_BYTES - 1; at += piece)
            assert_false(stop_matcher_push(&matcher, bytes + at, piece, &out));
        assert_int_equal(out.length, 0);
        assert_false(stop_matcher_push(&matcher, "a", 1, &out)); /* one more than can be its own */
        assert_string_equal(out.bytes, "a");
        assert_true(stop_matcher_push(&matcher, "b", 1, &out));
        assert_string_equal(out.bytes, "a");
        text_buffer_fini(&out);
        stop_matcher_fini(&matcher);
    }
}

/* After a stop string further text is ignored and none is released. */
static void a_found_stop_string_is_final(void **state)
{
    (void)state;
    struct stop_matcher matcher;
    stop_matcher_init(&matcher, stops, 1);
    struct text_buffer out = {0};
    assert_true(stop_matcher_push(&matcher, "1abcde2", 7, &out));
    assert_true(stop_matcher_push(&matcher, "3", 1, &out));
    stop_matcher_release(&matcher, &out);
    assert_string_equal(out.bytes, "1");
    text_buffer_fini(&out);
    stop_matcher_fini(&matcher);
}

static void without_stop_strings_all_text_passes(void **state)
{
    (void)state;
    struct stop_matcher matcher;
    stop_matcher_init(&matcher, NULL, 0);
    struct text_buffer out = {0};
    assert_false(stop_matcher_push(&matcher, "abc", 3, &out));
    assert_string_equal(out.bytes, "abc");
    assert_null(stop_matcher_string(&matcher));
    text_buffer_fini(&out);
    stop_matcher_fini(&matcher);
}

/* Against the definition: cut the whole text at the first stop string. None of these ends
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
        stop_matcher_init(&matcher, words, COUNT(words));
        struct text_buffer out = {0};
        for (size_t at = 0; at < length; at++) {
            if (stop_matcher_push(&matcher, text + at, 1, &out))
                break;
        }
        stop_matcher_release(&matcher, &out);
        size_t cut = length;
        for (size_t i = 0; i < COUNT(words); i++) {
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

static void a_found_stop_string_can_be_kept(void **state)
{
    (void)state;
    const char text[] = "1 xbcd zz";
    for (size_t piece = 1; piece < sizeof text; piece++) {
        struct stop_matcher matcher;
        struct text_buffer out = {0};
        stop_matcher_init(&matcher, stops, COUNT(stops));
        matcher.include = true;
        for (size_t at = 0; at < sizeof text - 1; at += piece)
            (void)stop_matcher_push(&matcher, text + at,
                                    piece < sizeof text - 1 - at ? piece : sizeof text - 1 - at,
                                    &out);
        stop_matcher_release(&matcher, &out);
        assert_string_equal(out.bytes, "1 xbcd");
        assert_string_equal(stop_matcher_string(&matcher), "xbcd");
        text_buffer_fini(&out);
        stop_matcher_fini(&matcher);
    }
    struct stop_matcher matcher;
    struct text_buffer out = {0};
    stop_matcher_init(&matcher, stops, COUNT(stops));
    matcher.include = true;
    assert_false(stop_matcher_push(&matcher, "1 abc", 5, &out));
    assert_string_equal(out.bytes, "1 "); /* nothing is found yet */
    text_buffer_fini(&out);
    stop_matcher_fini(&matcher);
}

static void released_text_begins_no_stop(void **state)
{
    (void)state;
    struct stop_matcher matcher;
    stop_matcher_init(&matcher, stops, COUNT(stops));
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

/* One byte that begins no stop string goes out at once. */
static void single_bytes_are_not_held_back(void **state)
{
    (void)state;
    static const struct stop_string one[] = {{"xyz", 3}};
    struct stop_matcher matcher;
    stop_matcher_init(&matcher, one, COUNT(one));
    struct text_buffer out = {0};
    assert_false(stop_matcher_push(&matcher, "a", 1, &out));
    assert_int_equal(out.length, 1);
    assert_false(stop_matcher_push(&matcher, "x", 1, &out));
    assert_int_equal(out.length, 1);
    assert_false(stop_matcher_push(&matcher, "b", 1, &out));
    assert_string_equal(out.bytes, "axb");
    text_buffer_fini(&out);
    stop_matcher_fini(&matcher);
}

/* As many stop strings as there may be, each one found. */
static void the_most_stop_strings(void **state)
{
    (void)state;
    char letters[LIMIT_STOP_STRINGS][2];
    struct stop_string list[LIMIT_STOP_STRINGS];
    for (size_t i = 0; i < LIMIT_STOP_STRINGS; i++) {
        letters[i][0] = (char)('a' + i);
        letters[i][1] = '\0';
        list[i] = (struct stop_string){letters[i], 1};
    }
    for (size_t i = 0; i < LIMIT_STOP_STRINGS; i++) {
        char text[] = {'1', letters[i][0], '2', '\0'};
        expect_of(list, LIMIT_STOP_STRINGS, text, "1", (int)i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_to_be_complete_wins_in_any_pieces),
        cmocka_unit_test(of_two_that_end_together_the_longer_wins),
        cmocka_unit_test(of_two_equal_ones_the_first_wins),
        cmocka_unit_test(of_two_that_begin_together_the_shorter_wins),
        cmocka_unit_test(a_stop_string_of_one_byte_holds_nothing_back),
        cmocka_unit_test(single_bytes_are_not_held_back),
        cmocka_unit_test(the_most_stop_strings),
        cmocka_unit_test(the_longest_beginning_is_held_back),
        cmocka_unit_test(a_found_stop_string_is_final),
        cmocka_unit_test(a_found_stop_string_can_be_kept),
        cmocka_unit_test(without_stop_strings_all_text_passes),
        cmocka_unit_test(random_texts_agree_with_the_definition),
        cmocka_unit_test(released_text_begins_no_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
