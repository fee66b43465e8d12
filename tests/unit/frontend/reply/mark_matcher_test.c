/*
 * mark_matcher: which patterns the held bytes may still become, and which bytes names may have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/reply/mark_matcher.h"

static void patterns_that_fail_are_not_alive(void **state)
{
    (void)state;
    static const char *const patterns[] = {"<a>", "<b>", "xy"};
    struct mark_matcher matcher;
    mark_matcher_init(&matcher, patterns, 3);
    mark_matcher_reset(&matcher);
    assert_int_equal(mark_matcher_alive(&matcher), 0);
    assert_int_equal(mark_matcher_push(&matcher, 7, '<'), MARK_MORE);
    assert_int_equal(mark_matcher_alive(&matcher), 3);
    assert_int_equal(mark_matcher_push(&matcher, 7, 'b'), MARK_MORE);
    assert_int_equal(mark_matcher_alive(&matcher), 2);
    assert_int_equal(mark_matcher_push(&matcher, 7, '>'), MARK_FOUND);
    assert_int_equal(matcher.found, 1);
    assert_int_equal(matcher.unread, 0);
    mark_matcher_reset(&matcher);
    assert_int_equal(mark_matcher_push(&matcher, 2, '<'), MARK_MORE); /* one is enabled */
    assert_int_equal(mark_matcher_alive(&matcher), 2);
    assert_int_equal(mark_matcher_push(&matcher, 2, 'a'), MARK_NONE);
}

/* All patterns of a full matcher count. */
static void the_last_pattern_counts(void **state)
{
    (void)state;
    const char *patterns[MARK_PATTERNS];
    for (size_t i = 0; i < MARK_PATTERNS; i++)
        patterns[i] = i + 1 < MARK_PATTERNS ? "<a>" : "<b>";
    struct mark_matcher matcher;
    memset(&matcher, 0xff, sizeof matcher);
    mark_matcher_init(&matcher, patterns, MARK_PATTERNS);
    mark_matcher_reset(&matcher);
    assert_int_equal(mark_matcher_push(&matcher, UINT32_MAX, '<'), MARK_MORE);
    assert_int_equal(mark_matcher_alive(&matcher), (1u << MARK_PATTERNS) - 1);
    assert_int_equal(mark_matcher_push(&matcher, UINT32_MAX, 'b'), MARK_MORE);
    assert_int_equal(mark_matcher_alive(&matcher), 1u << (MARK_PATTERNS - 1));
    assert_int_equal(mark_matcher_push(&matcher, UINT32_MAX, '>'), MARK_FOUND);
    assert_int_equal(matcher.found, MARK_PATTERNS - 1);
    mark_matcher_reset(&matcher);
    assert_int_equal(mark_matcher_push(&matcher, UINT32_MAX, '<'), MARK_MORE);
    assert_int_equal(mark_matcher_push(&matcher, UINT32_MAX, 'a'), MARK_MORE);
    assert_int_equal(mark_matcher_push(&matcher, UINT32_MAX, '>'), MARK_FOUND);
    assert_int_equal(matcher.found, 0); /* the first of several */
}

static enum mark_result match_pattern(const char *pattern, const char *text)
{
    const char *const patterns[] = {pattern};
    struct mark_matcher matcher;
    mark_matcher_init(&matcher, patterns, 1);
    mark_matcher_reset(&matcher);
    enum mark_result result = MARK_MORE;
    for (size_t i = 0; result == MARK_MORE && text[i]; i++)
        result = mark_matcher_push(&matcher, 1, text[i]);
    return result;
}

static enum mark_result match(const char *text)
{
    return match_pattern("<f=%n>", text);
}

static void keys_may_have_blanks_and_brackets(void **state)
{
    (void)state;
    assert_int_equal(match_pattern("<f=%k>", "<f=a (b)~>"), MARK_FOUND);
    assert_int_equal(match_pattern("<f=%k>", "<f=\xc3\xbc!>"), MARK_FOUND);
    assert_int_equal(match_pattern("<f=%k>", "<f=a\x7f>"), MARK_NONE);
    assert_int_equal(match_pattern("<f=%k>", "<f=a\x1f>"), MARK_NONE);
    assert_int_equal(match_pattern("<f=%k>", "<f=a\">"), MARK_NONE);
}

static void names_have_printable_bytes_without_brackets(void **state)
{
    (void)state;
    assert_int_equal(match("<f=get_time>"), MARK_FOUND);
    assert_int_equal(match("<f=!>"), MARK_FOUND);
    assert_int_equal(match("<f=~\xc3\xbc>"), MARK_FOUND);
    assert_int_equal(match("<f=\x1f>"), MARK_NONE);
    assert_int_equal(match("<f=a\x7f>"), MARK_NONE);
    assert_int_equal(match("<f=a(>"), MARK_NONE);
    assert_int_equal(match("<f=>"), MARK_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_that_fail_are_not_alive),
        cmocka_unit_test(the_last_pattern_counts),
        cmocka_unit_test(keys_may_have_blanks_and_brackets),
        cmocka_unit_test(names_have_printable_bytes_without_brackets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
