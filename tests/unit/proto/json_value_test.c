/*
 * Documents are checked against the whole grammar; members are found by name, numbers and strings
 * are read within their types.
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

#include "proto/json_value.h"
#include "proto/limits.h"

static enum result open_text(const char *json, struct json_value *value)
{
    struct error_text error = {""};
    enum result result = json_value_open(json, strlen(json), 1 << 20, value, &error);
    assert_true(result == RESULT_OK || error.text[0] != '\0');
    return result;
}

static struct json_value must_open(const char *json)
{
    struct json_value value;
    if (open_text(json, &value) != RESULT_OK)
        fail_msg("%s", json);
    return value;
}

static void test_valid(void **state)
{
    (void)state;
    static const char *const valid[] = {"{}",
                                        "[]",
                                        "null",
                                        "true",
                                        " false\n",
                                        "0",
                                        "-0",
                                        "-1.5e+3",
                                        "1E-2",
                                        "\"\"",
                                        "\"a\\u00e9\"",
                                        "[[],{}]",
                                        "[1,[2,3]]",
                                        "{\"a\":{\"b\":[1,{\"c\":null}]},\"d\":\"}\"}",
                                        "[{},{\"a\":[]}]",
                                        "{\"a\":NaN,\"b\":[Infinity,-Infinity]}"};
    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++)
        must_open(valid[i]);
}

static void test_invalid(void **state)
{
    (void)state;
    static const char *const invalid[] = {"",
                                          " ",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          "[1,]",
                                          "[,1]",
                                          "[1 2]",
                                          "{,}",
                                          "{\"a\"}",
                                          "{\"a\":}",
                                          "{\"a\":1,}",
                                          "{a:1}",
                                          "{\"a\" 1}",
                                          "{\"a\":1 \"b\":2}",
                                          "[1}",
                                          "{\"a\":1]",
                                          "1 2",
                                          "[] []",
                                          "nul",
                                          "nulll",
                                          "True",
                                          "nan",
                                          "Inf",
                                          "-NaN",
                                          "+Infinity",
                                          "Infinit",
                                          "-",
                                          "01",
                                          "1.",
                                          ".5",
                                          "1e",
                                          "1e+",
                                          "+1",
                                          "0x1",
                                          "'a'",
                                          "\"a",
                                          "\"\\x\"",
                                          "\"\\u12\"",
                                          "\"\n\"",
                                          "\"\xff\"",
                                          "[1]x",
                                          "{1:2}",
                                          "{\"a\":[1,{\"b\":}]}",
                                          "[\"a\" : 1]",
                                          "/**/1",
                                          "[1,[2,]]"};
    struct json_value value;
    for (size_t i = 0; i < sizeof invalid / sizeof invalid[0]; i++)
        if (open_text(invalid[i], &value) == RESULT_OK)
            fail_msg("%s", invalid[i]);
}

static void test_bounds(void **state)
{
    (void)state;
    char json[2 * LIMIT_JSON_DEPTH + 3] = "";
    struct json_value value;
    struct error_text error;
    memset(json, '[', LIMIT_JSON_DEPTH);
    memset(json + LIMIT_JSON_DEPTH, ']', LIMIT_JSON_DEPTH);
    assert_int_equal(open_text(json, &value), RESULT_OK);
    memset(json, '[', LIMIT_JSON_DEPTH + 1);
    memset(json + LIMIT_JSON_DEPTH + 1, ']', LIMIT_JSON_DEPTH + 1);
    assert_int_equal(open_text(json, &value), RESULT_INVALID);
    assert_int_equal(json_value_open("[1234]", 6, 5, &value, &error), RESULT_TOO_LARGE);
    assert_int_equal(json_value_open("[123]", 5, 5, &value, &error), RESULT_OK);
    char name[400];
    snprintf(name, sizeof name, "{\"%0300d\":1}", 7);
    assert_int_equal(open_text(name, &value), RESULT_INVALID);
    assert_int_equal(json_value_open("1\0", 2, 5, &value, &error), RESULT_INVALID);
}

static void test_members(void **state)
{
    (void)state;
    struct json_value root = must_open(
        "{\"a\":1,\"b\":{\"a\":\"deep\"},\"n\":null,\"a\":2,\"\\u0063\":[1,\"x\",[]],\"t\":true}");
    uint32_t number = 0;
    char text[8];
    assert_int_equal(json_value_u32(json_value_member(root, "a"), &number), RESULT_OK);
    assert_int_equal(number, 2); /* the last of a name */
    struct json_value inner = json_value_member(root, "b");
    assert_int_equal(json_value_string(json_value_member(inner, "a"), text, sizeof text),
                     RESULT_OK);
    assert_string_equal(text, "deep");
    assert_int_equal(json_value_type(json_value_member(root, "n")), JSON_ABSENT);
    assert_int_equal(json_value_type(json_value_member(root, "z")), JSON_ABSENT);
    assert_true(json_value_member_is_null(root, "n"));
    assert_false(json_value_member_is_null(root, "z"));
    assert_false(json_value_member_is_null(root, "a"));
    assert_false(json_value_member_is_null(inner, "n"));
    assert_int_equal(json_value_type(json_value_member(inner, "b")), JSON_ABSENT);
    assert_int_equal(json_value_type(json_value_member(json_value_member(root, "t"), "a")),
                     JSON_ABSENT);
    struct json_value element;
    enum json_type types[4];
    size_t count = 0;
    for (struct json_reader at = json_value_elements(json_value_member(root, "c"));
         json_value_next(&at, &element);)
        types[count++] = json_value_type(element);
    assert_int_equal(count, 3);
    assert_int_equal(types[0], JSON_NUMBER);
    assert_int_equal(types[1], JSON_STRING);
    assert_int_equal(types[2], JSON_ARRAY);
    struct json_reader none = json_value_elements(root);
    assert_false(json_value_next(&none, &element));
}

static void test_scalars(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        enum result as_u32, as_f32, as_bool, as_string;
    } cases[] = {
        {"0", RESULT_OK, RESULT_OK, RESULT_INVALID, RESULT_INVALID},
        {"0.5", RESULT_INVALID, RESULT_OK, RESULT_INVALID, RESULT_INVALID},
        {"3.4028234663852886e38", RESULT_INVALID, RESULT_OK, RESULT_INVALID, RESULT_INVALID},
        {"-3.4028234663852886e38", RESULT_INVALID, RESULT_OK, RESULT_INVALID, RESULT_INVALID},
        {"3.4028234663852889e38", RESULT_INVALID, RESULT_INVALID, RESULT_INVALID, RESULT_INVALID},
        {"false", RESULT_INVALID, RESULT_INVALID, RESULT_OK, RESULT_INVALID},
        {"7", RESULT_OK, RESULT_OK, RESULT_INVALID, RESULT_INVALID},
        {"7.0", RESULT_OK, RESULT_OK, RESULT_INVALID, RESULT_INVALID},
        {"7.5", RESULT_INVALID, RESULT_OK, RESULT_INVALID, RESULT_INVALID},
        {"-7", RESULT_INVALID, RESULT_OK, RESULT_INVALID, RESULT_INVALID},
        {"4294967295", RESULT_OK, RESULT_OK, RESULT_INVALID, RESULT_INVALID},
        {"4294967296", RESULT_INVALID, RESULT_OK, RESULT_INVALID, RESULT_INVALID},
        {"1e39", RESULT_INVALID, RESULT_INVALID, RESULT_INVALID, RESULT_INVALID},
        {"1e999", RESULT_INVALID, RESULT_INVALID, RESULT_INVALID, RESULT_INVALID},
        {"true", RESULT_INVALID, RESULT_INVALID, RESULT_OK, RESULT_INVALID},
        {"null", RESULT_NOT_FOUND, RESULT_NOT_FOUND, RESULT_NOT_FOUND, RESULT_NOT_FOUND},
        {"\"7\"", RESULT_INVALID, RESULT_INVALID, RESULT_INVALID, RESULT_OK},
        {"\"seven b\"", RESULT_INVALID, RESULT_INVALID, RESULT_INVALID, RESULT_OK},
        {"\"eight by\"", RESULT_INVALID, RESULT_INVALID, RESULT_INVALID, RESULT_INVALID},
        {"\"a\\u0000b\"", RESULT_INVALID, RESULT_INVALID, RESULT_INVALID, RESULT_INVALID},
        {"[]", RESULT_INVALID, RESULT_INVALID, RESULT_INVALID, RESULT_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_value value = must_open(cases[i].json);
        uint32_t number = 0;
        float real = 0;
        bool truth = false;
        char text[8] = "x";
        assert_int_equal(json_value_u32(value, &number), cases[i].as_u32);
        assert_int_equal(json_value_f32(value, &real), cases[i].as_f32);
        assert_int_equal(json_value_bool(value, &truth), cases[i].as_bool);
        assert_int_equal(json_value_string(value, text, sizeof text), cases[i].as_string);
        if (json_value_type(value) == JSON_STRING && cases[i].as_string != RESULT_OK)
            assert_string_equal(text, "");
        if (cases[i].as_bool == RESULT_OK)
            assert_int_equal(truth, strcmp(cases[i].json, "true") == 0);
        if (cases[i].as_u32 == RESULT_OK)
            assert_int_equal(number, strtoul(cases[i].json, NULL, 10));
    }
}

static void test_bounded_member(void **state)
{
    (void)state;
    struct json_value object = must_open("{\"a\": 1, \"b\": 7, \"c\": 0, \"d\": 8, \"e\": \"2\"}");
    static const struct {
        const char *name;
        enum result result;
        uint32_t number;
    } rows[] = {{"a", RESULT_OK, 1},      {"b", RESULT_OK, 7},      {"absent", RESULT_OK, 0},
                {"c", RESULT_INVALID, 0}, {"d", RESULT_INVALID, 0}, {"e", RESULT_INVALID, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error_text error = {""};
        uint32_t number = 5;
        assert_int_equal(json_value_member_u32(object, rows[i].name, 7, 0, &number, &error),
                         rows[i].result);
        if (rows[i].result == RESULT_OK) {
            assert_int_equal(number, rows[i].number);
            continue;
        }
        char text[64];
        snprintf(text, sizeof text, "its %s is not a number from 1 to 7", rows[i].name);
        assert_string_equal(error.text, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounded_member), cmocka_unit_test(test_valid),
        cmocka_unit_test(test_invalid),        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_members),        cmocka_unit_test(test_scalars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
