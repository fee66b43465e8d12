/*
 * json_reader: strings are unescaped and checked, members and elements walked, any value
 * skipped, and failure sticks.
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

#include "proto/json_reader.h"

static struct json_reader open_text(const char *json)
{
    return json_reader_open(json, strlen(json));
}

static void assert_string(const char *json, const char *wanted, size_t wanted_bytes)
{
    char text[64];
    struct json_reader reader = open_text(json);
    size_t bytes = json_reader_string(&reader, text, sizeof text);
    assert_false(reader.failed);
    assert_int_equal(bytes, wanted_bytes);
    assert_memory_equal(text, wanted, wanted_bytes);
}

static void test_strings(void **state)
{
    (void)state;
    assert_string("\"\"", "", 0);
    assert_string(" \"a\\n\\t\\\"\\\\\\/\\b\\f\\r\"", "a\n\t\"\\/\b\f\r", 9);
    assert_string("\"\\u0041\\u00e9\\u20AC\"", "A\xC3\xA9\xE2\x82\xAC", 6);
    assert_string("\"\\ud83d\\ude00\"", "\xF0\x9F\x98\x80", 4);
    assert_string("\"x\\u0000y\"", "x\0y", 3);
    assert_string("\"\xC3\xA9\"", "\xC3\xA9", 2);
}

static void test_bad_strings(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "x",
                                      "\"",
                                      "\"a",
                                      "\"\\",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\u12g4\"",
                                      "\"\\ud800\"",
                                      "\"\\ud800\\u0041\"",
                                      "\"\\udc00\"",
                                      "\"\n\"",
                                      "\"\xff\"",
                                      "\"\xC3\"",
                                      "\"123456789\""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[8];
        struct json_reader reader = open_text(bad[i]);
        assert_int_equal(json_reader_string(&reader, text, sizeof text), 0);
        assert_true(reader.failed);
    }
}

static void test_walks_objects_and_arrays(void **state)
{
    (void)state;
    char name[8];
    size_t bytes;
    struct json_reader reader = open_text(" {\"a\" : [ 1, 20 ] , \"b\":{}, \"c\":[], \"d\":true}");
    json_reader_enter(&reader, '{');
    assert_true(json_reader_next_member(&reader, name, sizeof name, &bytes));
    json_reader_enter(&reader, '[');
    assert_true(json_reader_next_element(&reader));
    assert_int_equal(json_reader_u32(&reader), 1);
    assert_true(json_reader_next_element(&reader));
    assert_int_equal(json_reader_u32(&reader), 20);
    assert_false(json_reader_next_element(&reader));
    assert_true(json_reader_next_member(&reader, name, sizeof name, &bytes));
    assert_int_equal(name[0], 'b');
    json_reader_enter(&reader, '{');
    assert_false(json_reader_next_member(&reader, name, sizeof name, &bytes));
    assert_true(json_reader_next_member(&reader, name, sizeof name, &bytes));
    json_reader_enter(&reader, '[');
    assert_false(json_reader_next_element(&reader));
    assert_true(json_reader_next_member(&reader, name, sizeof name, &bytes));
    assert_true(json_reader_bool(&reader));
    assert_false(json_reader_next_member(&reader, name, sizeof name, &bytes));
    assert_false(reader.failed);
}

static void test_bad_commas_fail(void **state)
{
    (void)state;
    static const char *const bad[] = {"[1 2]", "[,1]", "[1,]", "[1", "[", "1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct json_reader reader = open_text(bad[i]);
        json_reader_enter(&reader, '[');
        while (json_reader_next_element(&reader))
            json_reader_u32(&reader);
        assert_true(reader.failed);
        assert_false(json_reader_next_element(&reader));
    }
}

static void test_a_missing_comma_ends_the_walk(void **state)
{
    (void)state;
    struct json_reader reader = open_text("[1 2]");
    json_reader_enter(&reader, '[');
    assert_true(json_reader_next_element(&reader));
    assert_int_equal(json_reader_u32(&reader), 1);
    assert_false(json_reader_next_element(&reader));
    assert_true(reader.failed);
}

static void test_skips_any_value(void **state)
{
    (void)state;
    static const char *const values[] = {"1",
                                         "-2.5e3",
                                         "null",
                                         "\"a\\\"]\"",
                                         "[]",
                                         "{}",
                                         "[1,[2,{\"a\":\"}\"}],3]",
                                         "{\"a\":{\"b\":[true]}}"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char json[64];
        size_t bytes;
        snprintf(json, sizeof json, "[ %s , 7]", values[i]);
        struct json_reader reader = open_text(json);
        json_reader_enter(&reader, '[');
        assert_true(json_reader_next_element(&reader));
        const char *value = json_reader_skip(&reader, &bytes);
        assert_int_equal(bytes, strlen(values[i]));
        assert_memory_equal(value, values[i], bytes);
        assert_true(json_reader_next_element(&reader));
        assert_int_equal(json_reader_u32(&reader), 7);
    }
    static const char *const bad[] = {"", "[", "[}", "{]", "\"", "[\"]", "]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t bytes;
        struct json_reader reader = open_text(bad[i]);
        json_reader_skip(&reader, &bytes);
        assert_true(reader.failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_bad_strings),
        cmocka_unit_test(test_walks_objects_and_arrays),
        cmocka_unit_test(test_bad_commas_fail),
        cmocka_unit_test(test_a_missing_comma_ends_the_walk),
        cmocka_unit_test(test_skips_any_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
