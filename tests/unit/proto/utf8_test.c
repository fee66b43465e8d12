/*
 * utf8: every scalar value survives, and ill-formed bytes are replaced as Python replaces them.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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

/* Every lead byte with every second byte, in blocks of exactly their size: valid with the rest of
 * the character if table 3-7 of Unicode says so. */
static void test_second_bytes_follow_the_table(void **state)
{
    (void)state;
    for (unsigned lead = 0x80; lead < 0x100; lead++) {
        size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                        : lead >= 0xE0 && lead <= 0xEF ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 1;
        unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        for (unsigned second = 0; second < 0x100; second++) {
            bool fits = length > 1 && second >= low && second <= high;
            char *bytes = malloc(length + 1);
            assert_non_null(bytes);
            memset(bytes, 0x80, length + 1);
            bytes[0] = (char)lead;
            bytes[1] = (char)second;
            bool valid = !fits;
            size_t count = length > 1 ? length : 2;
            assert_int_equal(utf8_scan(bytes, count, &valid), fits ? length : 1);
            assert_int_equal(valid, fits);
            assert_int_equal(utf8_is_valid(bytes, count), fits);
            free(bytes);
        }
    }
}

static void test_later_bytes_continue(void **state)
{
    (void)state;
    static const char *const leads[] = {"\xe1\x80", "\xf1\x80", "\xf1\x80\x80"};
    for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++) {
        size_t before = strlen(leads[i]);
        size_t length = leads[i][0] == '\xe1' ? 3 : 4;
        for (unsigned byte = 0; byte < 0x100; byte++) {
            char bytes[4];
            memset(bytes, 0xBF, sizeof bytes);
            memcpy(bytes, leads[i], before);
            bytes[before] = (char)byte;
            bool fits = byte >= 0x80 && byte <= 0xBF;
            bool valid = !fits;
            assert_int_equal(utf8_scan(bytes, length, &valid), fits ? length : before);
            assert_int_equal(valid, fits);
        }
    }
}

/* Several characters, one wrong byte at each place. */
static void test_valid_text_is_valid_to_its_end(void **state)
{
    (void)state;
    const char text[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
    size_t count = sizeof text - 1;
    assert_true(utf8_is_valid(text, count));
    assert_true(utf8_is_valid(text, 0));
    assert_false(utf8_is_valid(text, 2)); /* the next byte, outside, would complete the character */
    for (size_t at = 0; at < count; at++) {
        char *broken = malloc(count);
        assert_non_null(broken);
        memcpy(broken, text, count);
        broken[at] = '\xff';
        assert_false(utf8_is_valid(broken, count));
        free(broken);
    }
    static const size_t starts[] = {0, 1, 3, 6, 10};
    for (size_t i = 1; i < 5; i++)
        assert_int_equal(utf8_previous(text, starts[i]), starts[i - 1]);
    assert_int_equal(utf8_previous(text, count), 10);
}

static void test_white_space_is_unicodes(void **state)
{
    (void)state;
    static const uint32_t spaces[] = {0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x20,   0x85,
                                      0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004,
                                      0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x2028,
                                      0x2029, 0x202F, 0x205F, 0x3000};
    const size_t count = sizeof spaces / sizeof spaces[0];
    size_t found = 0;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        bool listed = found < count && spaces[found] == code;
        assert_int_equal(utf8_is_space(code), listed);
        found += listed;
    }
    assert_int_equal(found, count);
    assert_false(utf8_is_space(0x180E) || utf8_is_space(0x200B) || utf8_is_space(0x1C));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_scalar_value_survives),
        cmocka_unit_test(test_one_replacement_for_each_maximal_subpart),
        cmocka_unit_test(test_second_bytes_follow_the_table),
        cmocka_unit_test(test_later_bytes_continue),
        cmocka_unit_test(test_valid_text_is_valid_to_its_end),
        cmocka_unit_test(test_white_space_is_unicodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
