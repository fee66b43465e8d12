/*
 * Valid text passes unchanged however it is split; invalid bytes become one U+FFFD per maximal
 * subpart, as in Python's decoder.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/base/utf8_stream.h"

#define BAD "\xef\xbf\xbd"

static void expect_decoded(const char *bytes, size_t count, size_t piece, const char *expected)
{
    struct utf8_stream stream = {0};
    struct text_buffer out = {0};
    for (size_t at = 0; at < count; at += piece)
        utf8_stream_push(&stream, bytes + at, count - at < piece ? count - at : piece, &out);
    utf8_stream_finish(&stream, &out);
    text_buffer_append(&out, "", 0);
    assert_false(out.failed);
    assert_string_equal(out.bytes, expected);
    text_buffer_fini(&out);
}

static void valid_text_survives_any_cut(void **state)
{
    (void)state;
    const char *text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x9f z\xf4\x8f\xbf\xbf";
    for (size_t piece = 1; piece <= strlen(text); piece++)
        expect_decoded(text, strlen(text), piece, text);
}

/* Expected values: bytes.decode('utf-8', errors='replace') of CPython 3.11. */
static void invalid_bytes_are_replaced_as_python_does(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        const char *expected;
    } cases[] = {
        {"\x80", BAD},
        {"\xc0\xaf", BAD BAD},
        {"\xe2\x82", BAD},
        {"\xe2\x82x", BAD "x"},
        {"\xe2\xe2\x82\xac", BAD "\xe2\x82\xac"},
        {"\xed\xa0\x80", BAD BAD BAD},
        {"\xf0\x80\x80\x80", BAD BAD BAD BAD},
        {"\xf4\x90\x80\x80", BAD BAD BAD BAD},
        {"\xf0\x9f\x90", BAD},
        {"\xf0\x9f\x90\xf0\x9f\x90\x9f", BAD "\xf0\x9f\x90\x9f"},
        {"\xff\xfe", BAD BAD},
        {"ok\xc3", "ok" BAD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t piece = 1; piece <= 4; piece++)
            expect_decoded(cases[i].bytes, strlen(cases[i].bytes), piece, cases[i].expected);
    }
}

static void incomplete_characters_are_held_back(void **state)
{
    (void)state;
    struct utf8_stream stream = {0};
    struct text_buffer out = {0};
    utf8_stream_push(&stream, "\xf0\x9f\x90", 3, &out);
    assert_int_equal(out.length, 0);
    utf8_stream_push(&stream, "\x9f", 1, &out);
    assert_string_equal(out.bytes, "\xf0\x9f\x90\x9f");
    text_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_text_survives_any_cut),
        cmocka_unit_test(invalid_bytes_are_replaced_as_python_does),
        cmocka_unit_test(incomplete_characters_are_held_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
