/*
 * utf8: every scalar value survives, and ill-formed bytes are replaced as Python replaces them.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/utf8.h"

static void test_every_scalar_value_survives(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        char bytes[UTF8_MAX_CHAR_BYTES];
        uint32_t read;
        if (code >= 0xD800 && code <= 0xDFFF)
            continue;
        size_t written = utf8_encode(code, bytes);
        assert_int_equal(utf8_decode(bytes, written, &read), written);
        assert_int_equal(read, code);
        assert_int_equal(utf8_char_bytes(bytes[0]), written);
        assert_int_equal(utf8_previous(bytes, written), 0);
        assert_true(utf8_is_valid(bytes, written));
        assert_false(utf8_is_valid(bytes, written - 1) && written > 1);
    }
}

/* Replaces ill-formed bytes by '?' and copies the rest. */
static void repair(const char *bytes, size_t byte_count, char *out)
{
    for (size_t at = 0; at < byte_count;) {
        bool valid;
        size_t length = utf8_scan(bytes + at, byte_count - at, &valid);
        if (valid) {
            memcpy(out, bytes + at, length);
            out += length;
        } else {
            *out++ = '?';
        }
        at += length;
    }
    *out = '\0';
}

/* Expected: bytes.decode("utf-8", "replace") of CPython 3.11, U+FFFD written as '?'. */
static void test_one_replacement_for_each_maximal_subpart(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        const char *repaired;
    } cases[] = {
        {"a\x80"
         "b",
         "a?b"},
        {"\xff\xfe", "??"},
        {"\xc3", "?"},
        {"\xc3(", "?("},
        {"\xe2\x82", "?"},
        {"\xe2\x82x", "?x"},
        {"\xed\xa0\x80", "???"},
        {"\xf0\x9f\x98", "?"},
        {"\xf0\x9f\x98\xe2\x9f\x98", "?\xe2\x9f\x98"},
        {"\xf4\x90\x80\x80", "????"},
        {"\xc0\xaf", "??"},
        {"\xe0\x80\xaf", "???"},
        {"\xf8\x88\x80\x80\x80", "?????"},
        {"\xf0\x80\x80\x80", "????"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[32];
        repair(cases[i].bytes, strlen(cases[i].bytes), out);
        assert_string_equal(out, cases[i].repaired);
    }
}

static void test_white_space_is_unicodes(void **state)
{
    (void)state;
    unsigned count = 0;
    for (uint32_t code = 0; code <= 0x10FFFF; code++)
        count += utf8_is_space(code);
    assert_int_equal(count, 25);
    assert_true(utf8_is_space(0x85) && utf8_is_space(0x3000) && utf8_is_space(0x2028));
    assert_false(utf8_is_space(0x180E) || utf8_is_space(0x200B) || utf8_is_space(0x1C));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_scalar_value_survives),
        cmocka_unit_test(test_one_replacement_for_each_maximal_subpart),
        cmocka_unit_test(test_white_space_is_unicodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
