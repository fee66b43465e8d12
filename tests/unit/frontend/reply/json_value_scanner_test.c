/*
 * Whatever a value is cut to, closing makes it JSON; what is JSON passes unchanged, what is not is
 * refused at the byte that cannot stand there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/reply/json_value_scanner.h"
#include "proto/limits.h"

static const char *const values[] = {
    "{}",
    "[]",
    "{\"a\":1}",
    " {\n \"a\" : [ 1 , -2.5e+3, 0, 0.1, 1E9 ] ,\t\"b\":{\"c\":[[],{}]}, \"\":\"\" }",
    "[true,false,null,\"x\",\"\",\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]",
    "{\"u\\u00e9\":\"\\u00e9\\ud83d\\ude00 \u00e9\",\"k\":\"{[,:]}\"}",
    "\"text\"",
    "[[[[[[[[1]]]]]]]]",
};

static void json_passes_unchanged(void **state)
{
    (void)state;
    struct text_buffer out = {0};
    for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
        const char *text = values[v];
        text_buffer_clear(&out);
        if (!json_value_scanner_read(text, strlen(text), &out))
            fail_msg("%s", text);
        assert_string_equal(out.bytes, text + strspn(text, " "));
    }
    text_buffer_fini(&out);
}

static void cut_values_close_to_json(void **state)
{
    (void)state;
    struct text_buffer out = {0};
    for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
        size_t length = strlen(values[v]);
        for (size_t cut = 0; cut <= length; cut++) {
            struct json_value_scanner scanner = {0};
            text_buffer_clear(&out);
            for (size_t i = 0; i < cut; i++)
                assert_int_not_equal(json_value_scanner_push(&scanner, values[v][i], &out),
                                     JSON_SCAN_BROKEN);
            json_value_scanner_close(&scanner, &out);
            /* A cut within a character is the sender's to wait for; cJSON takes any bytes. */
            cJSON *value = cJSON_ParseWithOpts(out.bytes, NULL, true);
            if (!value)
                fail_msg("%.*s closed to %s", (int)cut, values[v], out.bytes);
            cJSON_Delete(value);
        }
    }
    text_buffer_fini(&out);
}

static void what_is_no_json_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t good; /* bytes that are taken */
    } cases[] = {
        {"x", 0},    {"{a", 1},    {"{\"a\" 1", 5},  {"{\"a\":}", 5},   {"{\"a\":1,}", 7},
        {"[1,]", 3}, {"[,", 1},    {"[1 2", 3},      {"[01", 2},        {"[-x", 2},
        {"[1.x", 3}, {"[1e+]", 4}, {"[tru]", 4},     {"[nul\"", 4},     {"{\"a\":1]", 6},
        {"[1}", 2},  {"{,", 1},    {"{\"a\":'b", 5}, {"{\"a\":NaN", 5}, {"[+1", 1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct json_value_scanner scanner = {0};
        size_t good = 0;
        while (json_value_scanner_push(&scanner, cases[c].text[good], NULL) != JSON_SCAN_BROKEN)
            good++;
        if (good != cases[c].good)
            fail_msg("%s: %zu", cases[c].text, good);
    }
    assert_false(json_value_scanner_read("{} x", 4, NULL));
    assert_false(json_value_scanner_read("{", 1, NULL));
    assert_false(json_value_scanner_read("-", 1, NULL));
    assert_false(json_value_scanner_read("", 0, NULL));
    assert_true(json_value_scanner_read("12 ", 3, NULL));
    assert_true(json_value_scanner_read("true  ", 4, NULL)); /* `length` bytes are the text */
}

static void depth_is_bounded(void **state)
{
    (void)state;
    struct json_value_scanner scanner = {0};
    struct text_buffer out = {0};
    for (unsigned i = 0; i < LIMIT_TOOL_DEPTH; i++)
        assert_int_equal(json_value_scanner_push(&scanner, '[', &out), JSON_SCAN_MORE);
    assert_int_equal(json_value_scanner_push(&scanner, '[', &out), JSON_SCAN_BROKEN);
    assert_int_equal(json_value_scanner_push(&scanner, '{', &out), JSON_SCAN_BROKEN);
    json_value_scanner_close(&scanner, &out);
    assert_int_equal(out.length, 2 * LIMIT_TOOL_DEPTH);
    text_buffer_fini(&out);
}

static void small_mistakes_in_strings_are_mended(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\"a\nb\tc\rd\x01\"", "\"a\\nb\\tc\\rd\\u0001\""},
        {"\"\\d \\' \\x41\"", "\"\\\\d \\\\' \\\\x41\""},
        {"\"\\u12 \\u\"", "\"\\\\u12 \\\\u\""},
        {"\"\\ud83d\"", "\"\\ufffd\""},
        {"\"\\ud83d\\n\"", "\"\\ufffd\\n\""},
        {"\"\\ud83dx\"", "\"\\ufffdx\""},
        {"\"\\ude00\"", "\"\\ufffd\""},
        {"\"\\ud83d\\u0041\"", "\"\\ufffd\\u0041\""},
        {"\"\\ud83d\\ud83d\\ude00\"", "\"\\ufffd\\ud83d\\ude00\""},
        {"\"\\ud83d\\u12\"", "\"\\ufffd\\\\u12\""},
        {"\"\\ud83d\\q\"", "\"\\ufffd\\\\q\""},
        {"\"\\\n\"", "\"\\\\\\n\""},
    };
    struct text_buffer out = {0};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        text_buffer_clear(&out);
        assert_true(json_value_scanner_read(cases[c][0], strlen(cases[c][0]), &out));
        assert_string_equal(out.bytes, cases[c][1]);
    }
    text_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_passes_unchanged),
        cmocka_unit_test(cut_values_close_to_json),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(small_mistakes_in_strings_are_mended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
