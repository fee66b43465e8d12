/*
 * Patterns: white space as Oniguruma reads it, refusals, and bounded work on a pattern made to be
 * exponential.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/prompt/tokenizer/pretokenizer_pattern.h"

static enum result find(const char *regex, const char *text, size_t text_bytes, size_t *start,
                        size_t *end)
{
    struct pretokenizer_pattern *pattern;
    struct pattern_search *search = pattern_search_create();
    assert_non_null(search);
    assert_int_equal(pretokenizer_pattern_open(regex, strlen(regex), &pattern, NULL), RESULT_OK);
    enum result result =
        pretokenizer_pattern_find(pattern, search, text, text_bytes, 0, start, end);
    pattern_search_destroy(search);
    pretokenizer_pattern_close(pattern);
    return result;
}

static void assert_match(const char *regex, const char *text, size_t wanted_start,
                         size_t wanted_end)
{
    size_t start;
    size_t end;
    assert_int_equal(find(regex, text, strlen(text), &start, &end), RESULT_OK);
    assert_int_equal(start, wanted_start);
    assert_int_equal(end, wanted_end);
}

static void test_white_space_is_unicodes(void **state)
{
    (void)state;
    size_t start;
    size_t end;
    const char *separator = "\xE1\xA0\x8E"; /* U+180E: not white space since Unicode 6.3 */
    assert_int_equal(find("\\s", separator, 3, &start, &end), RESULT_NOT_FOUND);
    assert_match("\\S", separator, 0, 3);
    assert_match("[^\\s]", separator, 0, 3);
    assert_match("[x\\s]+", "a\xE3\x80\x80 x\xC2\x85", 1, 8);
    assert_match("\\s+(?!\\S)", "  a", 0, 1);
}

static void test_set_that_begins_with_a_bracket(void **state)
{
    (void)state;
    assert_match("[]\\s]+\\s", "a]  b", 1, 4);
    assert_match("[^]\\s]+", "] ab", 2, 4);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const patterns[] = {"(", "[\\S]", "a{2", "\\C", "(?<=a+)b", "x\\"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        struct pretokenizer_pattern *pattern = NULL;
        struct error_text error = {""};
        enum result result =
            pretokenizer_pattern_open(patterns[i], strlen(patterns[i]), &pattern, &error);
        if (strcmp(patterns[i], "a{2") == 0) { /* a literal brace, as in Ruby */
            assert_int_equal(result, RESULT_OK);
            pretokenizer_pattern_close(pattern);
            continue;
        }
        assert_int_equal(result, RESULT_UNSUPPORTED);
        assert_true(strlen(error.text) > 10);
    }
}

static void test_exponential_pattern_is_given_up(void **state)
{
    (void)state;
    char text[64];
    size_t start;
    size_t end;
    memset(text, 'a', sizeof text);
    assert_int_equal(find("(?:a|a)*+b|(?:(?:a+)+)+$x", text, sizeof text, &start, &end),
                     RESULT_UNSUPPORTED);
}

/* More backtracking positions than the JIT's stack has room for: the interpreter goes on. */
static void test_deep_backtracking_still_matches(void **state)
{
    (void)state;
    enum { BYTES = 200 * 1000 };
    char *text = malloc(BYTES);
    size_t start;
    size_t end;
    memset(text, 'a', BYTES);
    text[BYTES - 1] = 'b';
    assert_int_equal(find("(?:a|c)*b", text, BYTES, &start, &end), RESULT_OK);
    assert_int_equal(start, 0);
    assert_int_equal(end, BYTES);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_white_space_is_unicodes),
        cmocka_unit_test(test_set_that_begins_with_a_bracket),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_exponential_pattern_is_given_up),
        cmocka_unit_test(test_deep_backtracking_still_matches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
