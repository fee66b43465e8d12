/*
 * JSON as RFC 8259 defines it and its nearest invalid neighbours, cut at every byte; members that an object has twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <string.h>

#include "frontend/base/json_text.h"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])
#define DEPTH        4u

static const char *const valid[] = {
    "{}",
    "[]",
    " \t\r\n0 \n",
    "-0",
    "10",
    "0.5",
    "-12.50e+3",
    "1E9",
    "2e-07",
    "true",
    "false",
    "null",
    "\"\"",
    "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE00\"",
    "\"\x7f\xc3\xa9\"",
    "\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"",
    "[1,2 , [3],{}]",
    "{\"a\":1,\"b\":{\"c\":[{}]}}",
    "{\"\":\"\"}",
    "[[[[]]]]",
};

static const char *const invalid[] = {
    "",
    " ",
    "007",
    "00",
    "-",
    "-a",
    "+1",
    ".5",
    "1.",
    "1.e5",
    "1e",
    "1e+",
    "0x10",
    "1 2",
    "NaN",
    "Infinity",
    "True",
    "nul",
    "nulls",
    "'a'",
    "\"",
    "\"a",
    "\"\n\"",
    "\"\t\"",
    "\"\x1f\"",
    "\"\xff\"",
    "\"\x80\"",
    "\"\xc3\"",
    "\"\xc0\x80\"",
    "\"\xed\xa0\x80\"",
    "\"\xf4\x90\x80\x80\"",
    "{\"a\xfe\":1}",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"\\u0000\"",
    "\"\\",
    "[",
    "]",
    "[1",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1}",
    "{",
    "}",
    "{]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{a:1}",
    "{1:2}",
    "{\"a\" 1}",
    "{\"a\":1 \"b\":2}",
    "{,}",
    "[:]",
    "{\"a\"::1}",
    "[1,,2]",
    "{}{}",
    "{} x",
    "// a\n1",
    "[1]]",
    "[[[[[]]]]]",
    "\"a\":1",
    "{\"a\":1:2}",
    "[\"a\":1]",
    "{\"a\",1}",
    "1,2",
    ":",
    "-01",
};

static void valid_texts_pass(void **state)
{
    (void)state;
    struct json_problem problem = {0};
    for (size_t i = 0; i < COUNT(valid); i++) {
        if (!json_text_check(valid[i], strlen(valid[i]), DEPTH, &problem))
            print_error("%s: %s\n", valid[i], problem.reason);
        assert_true(json_text_check(valid[i], strlen(valid[i]), DEPTH, &problem));
    }
}

static void invalid_texts_have_a_reason_and_a_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(invalid); i++) {
        struct json_problem problem = {0};
        if (json_text_check(invalid[i], strlen(invalid[i]), DEPTH, &problem))
            print_error("accepted: %s\n", invalid[i]);
        assert_false(json_text_check(invalid[i], strlen(invalid[i]), DEPTH, &problem));
        assert_non_null(problem.reason);
        assert_in_range(problem.offset, 0, strlen(invalid[i]));
    }
    struct json_problem problem;
    assert_false(json_text_check("{\"a\":007}", 9, DEPTH, &problem));
    assert_string_equal(problem.reason, "a number begins with 0");
    assert_int_equal(problem.offset, 8);
    assert_false(json_text_check("[1\0]", 4, DEPTH, &problem));
    assert_false(json_text_check("\"a\0b\"", 5, DEPTH, &problem));
}

/* Objects and arrays cut short are never valid, and nothing is read beyond the end. */
static void no_prefix_of_a_container_is_valid(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(valid); i++) {
        if (valid[i][0] != '{' && valid[i][0] != '[')
            continue;
        for (size_t bytes = 0; bytes < strlen(valid[i]); bytes++) {
            struct json_problem problem;
            char *exact = test_malloc(bytes + (bytes == 0));
            memcpy(exact, valid[i], bytes);
            assert_false(json_text_check(exact, bytes, DEPTH, &problem));
            test_free(exact);
        }
    }
}

static void depth_is_counted_in_brackets(void **state)
{
    (void)state;
    struct json_problem problem;
    char text[2 * JSON_DEPTH_MAX + 2];
    memset(text, '[', JSON_DEPTH_MAX);
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    assert_true(json_text_check(text, (size_t)2 * JSON_DEPTH_MAX, JSON_DEPTH_MAX, &problem));
    assert_false(json_text_check(text, (size_t)2 * JSON_DEPTH_MAX, JSON_DEPTH_MAX - 1, &problem));
    assert_string_equal(problem.reason, "it is nested too deep");
    assert_true(json_text_check("\"[[[[\"", 6, 0, &problem));
    assert_true(json_text_check("[{},{\"a\":[]},[]]", 16, 3, &problem));
}

static void duplicates_are_found_at_any_depth(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *duplicate;
    } cases[] = {
        {"{\"a\":1,\"b\":2,\"A\":3}", NULL}, {"{\"a\":1,\"b\":2,\"a\":1}", "a"},
        {"[{\"x\":1},{\"x\":2}]", NULL},     {"{\"p\":{\"q\":[0,{\"r\":1,\"s\":2,\"r\":3}]}}", "r"},
        {"{\"\\u0061\":1,\"a\":2}", "a"},    {"[]", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        cJSON *root = cJSON_Parse(cases[i].text);
        const char *found = json_text_find_duplicate(root);
        if (cases[i].duplicate)
            assert_string_equal(found, cases[i].duplicate);
        else
            assert_null(found);
        cJSON_Delete(root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_texts_pass),
        cmocka_unit_test(invalid_texts_have_a_reason_and_a_place),
        cmocka_unit_test(no_prefix_of_a_container_is_valid),
        cmocka_unit_test(depth_is_counted_in_brackets),
        cmocka_unit_test(duplicates_are_found_at_any_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
