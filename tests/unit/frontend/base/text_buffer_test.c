/*
 * Appends, numbers, formats and JSON strings across the growth of a buffer.
 */
#include "frontend/base/text_buffer.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Fills a new buffer up to `filled` bytes, so that what follows meets every distance to its end. */
static struct text_buffer filled_buffer(size_t filled)
{
    struct text_buffer buffer = {0};
    for (size_t i = 0; i < filled; i++)
        text_buffer_append(&buffer, "x", 1);
    return buffer;
}

static void numbers_have_at_least_their_digits(void **state)
{
    (void)state;
    static const struct {
        uint64_t number;
        unsigned digits;
        const char *text;
    } cases[] = {{0, 0, "0"},
                 {0, 1, "0"},
                 {7, 1, "7"},
                 {10, 1, "10"},
                 {42, 4, "0042"},
                 {99999, 4, "99999"},
                 {0, 4, "0000"},
                 {1, 20, "00000000000000000001"},
                 {UINT64_MAX, 1, "18446744073709551615"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct text_buffer buffer = {0};
        text_buffer_append_whole(&buffer, cases[i].number, cases[i].digits);
        assert_string_equal(buffer.bytes, cases[i].text);
        assert_int_equal(buffer.length, strlen(cases[i].text));
        text_buffer_fini(&buffer);
    }
}

static void appends_meet_the_end_of_the_buffer(void **state)
{
    (void)state;
    for (size_t filled = 0; filled < 600; filled++) {
        struct text_buffer buffer = filled_buffer(filled);
        text_buffer_append_text(&buffer, "abc");
        text_buffer_append_whole(&buffer, 12345, 1);
        text_buffer_append_format(&buffer, "[%s %d]", "formatted", -3);
        text_buffer_append_json_string(&buffer, "a\"\n\x01", 4);
        assert_false(buffer.failed);
        assert_int_equal(buffer.length, filled + strlen(buffer.bytes + filled));
        assert_string_equal(buffer.bytes + filled, "abc12345[formatted -3]\"a\\\"\\n\\u0001\"");
        text_buffer_fini(&buffer);
    }
}

static void a_format_may_be_longer_than_the_buffer(void **state)
{
    (void)state;
    struct text_buffer buffer = {0};
    text_buffer_append_text(&buffer, "ab");
    text_buffer_append_format(&buffer, "%1000d", 5);
    assert_int_equal(buffer.length, 1002);
    assert_int_equal(strlen(buffer.bytes), 1002);
    assert_string_equal(buffer.bytes + 1000, " 5");
    text_buffer_fini(&buffer);
}

static void a_failed_buffer_takes_nothing(void **state)
{
    (void)state;
    struct text_buffer buffer = filled_buffer(3);
    buffer.failed = true;
    text_buffer_append_text(&buffer, "abc");
    text_buffer_append_whole(&buffer, 1, 1);
    text_buffer_append_format(&buffer, "%d", 1);
    text_buffer_append_json_string(&buffer, "a", 1);
    assert_string_equal(buffer.bytes, "xxx");
    text_buffer_fini(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_at_least_their_digits),
        cmocka_unit_test(appends_meet_the_end_of_the_buffer),
        cmocka_unit_test(a_format_may_be_longer_than_the_buffer),
        cmocka_unit_test(a_failed_buffer_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
