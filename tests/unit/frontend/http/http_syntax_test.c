/*
 * The grammar of RFC 9110 and 9112: what each rule allows, and its nearest invalid neighbours.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/http/http_syntax.h"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

static void tokens(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "Z9", "!#$%&'*+-.^_`|~", "0"};
    static const char *const bad[] = {"", " a", "a b", "a:", "a\"", "a/", "\x7f", "\xc3"};
    for (size_t i = 0; i < COUNT(good); i++)
        assert_true(http_is_token(good[i]));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(http_is_token(bad[i]));
}

static void field_values(void **state)
{
    (void)state;
    assert_true(http_is_field_value(""));
    assert_true(http_is_field_value("a\tb \xc3\xa9 ~"));
    assert_false(http_is_field_value("a\rb"));
    assert_false(http_is_field_value("a\x1f"));
    assert_false(http_is_field_value("\x7f"));
}

static void hosts(void **state)
{
    (void)state;
    static const char *const good[] = {
        "",      "h",          "h:",  "h:80",      "a.b-c_d", "127.0.0.1:65535",
        "[::1]", "[::1]:8080", "%41", "[fe80::1]", "1.2.3.4"};
    static const char *const bad[] = {":80", "h:123456", "h:8a", "a b",        "a/b", "a@b",
                                      "a?",  "a#",       "[::1", "[]",         "[x]", "[::1]8",
                                      "::1", "h:80:80",  "a\\b", "[127.0.0.1]"};
    for (size_t i = 0; i < COUNT(good); i++)
        assert_true(http_is_host(good[i]));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(http_is_host(bad[i]));
}

/* Longer than any address in brackets, around the size of the copy. */
static void long_hosts_in_brackets(void **state)
{
    (void)state;
    for (size_t bytes = 40; bytes < 60; bytes++) {
        char text[80] = "[";
        memset(text + 1, '1', bytes);
        text[1 + bytes] = ']';
        text[2 + bytes] = '\0';
        assert_false(http_is_host(text));
    }
}

static void chunk_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        uint64_t size;
    } good[] = {
        {"0", 0},
        {"3c", 0x3c},
        {"00F", 15},
        {"fffffffffffffff", 0xfffffffffffffff},
        {"5;name", 5},
        {"5;name=value", 5},
        {"5;n=v", 5},
        {"5 ; name = value;b", 5},
        {"5;a=\"q \\\" ;=\"", 5},
        {"5;a=\"\"", 5},
    };
    static const char *const bad[] = {"",       "x",          "-1",       "+1",
                                      "0x5",    " 5",         "5 ",       "3c 5 junk",
                                      "5;",     "5; ",        "5;=b",     "5;a=",
                                      "5;a=\"", "5;a=\"b",    "5;a\rb",   "5;a=\"\x01\"",
                                      "5;a b",  "5;a=\"b\"c", "5;a=\"\\", "ffffffffffffffff"};
    for (size_t i = 0; i < COUNT(good); i++) {
        uint64_t size = 99;
        assert_true(http_chunk_size_parse(good[i].line, &size));
        assert_int_equal(size, good[i].size);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint64_t size;
        assert_false(http_chunk_size_parse(bad[i], &size));
    }
}

static void field_lines(void **state)
{
    (void)state;
    assert_true(http_is_field_line("a:"));
    assert_true(http_is_field_line("name: some words"));
    static const char *const bad[] = {"", ":", "a", "a :b", " a:b", "a: b\rc"};
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(http_is_field_line(bad[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens),      cmocka_unit_test(field_values),
        cmocka_unit_test(hosts),       cmocka_unit_test(long_hosts_in_brackets),
        cmocka_unit_test(chunk_sizes), cmocka_unit_test(field_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
