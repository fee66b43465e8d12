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
#include <stdio.h>
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
        {"x", 0},     {"{a", 1},    {"{\"a\" 1", 5}, {"{\"a\":}", 5},  {"{\"a\":1,}", 7},
        {"[1,]", 3},  {"[,", 1},    {"[1 2", 3},     {"[01", 2},       {"[-x", 2},
        {"[1.x", 3},  {"[1e+]", 4}, {"[tru]", 4},    {"[nul\"", 4},    {"{\"a\":1]", 6},
        {"[tru}", 4}, {"[1}", 2},   {"{,", 1},       {"{\"a\":'b", 5}, {"{\"a\":NaN", 5},
        {"[+1", 1},
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

static void numbers_obey_the_grammar(void **state)
{
    (void)state;
    static const char *const good[] = {"0",   "-0",   "10",   "9",     "0.5",  "-1.25",
                                       "0e1", "0E-0", "1e+5", "12e34", " 1\t", "0.0e0"};
    static const char *const bad[] = {"00",  "-",   "1.",   "1e", "1e+", "1e5.", "1.e",
                                      "-.5", "1ee", "1.5.", "-x", "1x",  "1 2",  "--1"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (!json_value_scanner_read(good[i], strlen(good[i]), NULL))
            fail_msg("%s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (json_value_scanner_read(bad[i], strlen(bad[i]), NULL))
            fail_msg("%s", bad[i]);
    }
}

/* Pushes `text`, which is the beginning of a value. */
static struct json_value_scanner scan(const char *text, struct text_buffer *out)
{
    struct json_value_scanner scanner = {0};
    text_buffer_clear(out);
    for (; *text; text++)
        assert_int_equal(json_value_scanner_push(&scanner, *text, out), JSON_SCAN_MORE);
    return scanner;
}

static void cut_values_close_with_the_least(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "null"},
        {"{\"a", "{\"a\":null}"},
        {"{\"a\"", "{\"a\":null}"},
        {"{\"a\":", "{\"a\":null}"},
        {"{\"a\":1, ", "{\"a\":1}"},
        {"[1,", "[1]"},
        {"[{},[1", "[{},[1]]"},
        {"[{\"a\":[{\"b\":", "[{\"a\":[{\"b\":null}]}]"},
        {"[t", "[true]"},
        {"fals", "false"},
        {"[-", "[-0]"},
        {"[0", "[0]"},
        {"[12", "[12]"},
        {"[1.", "[1.0]"},
        {"[1.5", "[1.5]"},
        {"[1e", "[1e0]"},
        {"[1e-", "[1e-0]"},
        {"[1e5", "[1e5]"},
        {"\"a\\", "\"a\""},
        {"\"\\u12", "\"\""},
        {"\"\\ud83d\\u", "\"\""},
        {"{\"\\ud83d", "{\"\":null}"},
    };
    struct text_buffer out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_value_scanner scanner = scan(cases[i][0], &out);
        json_value_scanner_close(&scanner, &out);
        assert_string_equal(out.bytes, cases[i][1]);
        assert_int_equal(json_value_scanner_push(&scanner, ' ', &out), JSON_SCAN_BROKEN);
    }
    text_buffer_fini(&out);
}

static void a_container_is_fresh_until_its_first_value(void **state)
{
    (void)state;
    static const char *const fresh[] = {"{", "[", "[ ", "{\"a\":[", "[{"};
    static const char *const begun[] = {"", "{\"", "[1", "[1,", "[{}", "{\"a\":1,", "{\"a\":"};
    struct text_buffer out = {0};
    for (size_t i = 0; i < sizeof fresh / sizeof fresh[0]; i++) {
        struct json_value_scanner scanner = scan(fresh[i], &out);
        assert_true(json_value_scanner_is_fresh(&scanner));
    }
    for (size_t i = 0; i < sizeof begun / sizeof begun[0]; i++) {
        struct json_value_scanner scanner = scan(begun[i], &out);
        assert_false(json_value_scanner_is_fresh(&scanner));
    }
    text_buffer_fini(&out);
}

/* A comma and the white space after it are held until a value follows: at most 48 bytes. */
static void long_white_space_after_a_comma_is_shortened(void **state)
{
    (void)state;
    struct text_buffer out = {0};
    char text[64];
    for (int blanks = 46; blanks <= 50; blanks++) {
        char expected[64];
        int kept = blanks < 47 ? blanks : 47;
        int length = snprintf(text, sizeof text, "[1 ,%*s2]", blanks, "");
        snprintf(expected, sizeof expected, "[1 ,%*s2]", kept, "");
        text_buffer_clear(&out);
        assert_true(json_value_scanner_read(text, (size_t)length, &out));
        assert_string_equal(out.bytes, expected);
    }
    text_buffer_fini(&out);
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
    scanner = (struct json_value_scanner){0}; /* an object as the innermost container */
    text_buffer_clear(&out);
    for (unsigned i = 1; i < LIMIT_TOOL_DEPTH; i++)
        assert_int_equal(json_value_scanner_push(&scanner, '[', &out), JSON_SCAN_MORE);
    assert_int_equal(json_value_scanner_push(&scanner, '{', &out), JSON_SCAN_MORE);
    json_value_scanner_close(&scanner, &out);
    assert_memory_equal(out.bytes + LIMIT_TOOL_DEPTH - 1, "{}]", 3);
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
        {"\"\x1f \x7f\"", "\"\\u001f \x7f\""},
        {"\"\\ud83d\\\\\"", "\"\\ufffd\\\\\""},
        {"\"\\ud7ff\\ue000\"", "\"\\ud7ff\\ue000\""}, /* next to the surrogates */
        {"\"\\ud800\\udc00\\uDBFF\\uDFFF\"", "\"\\ud800\\udc00\\uDBFF\\uDFFF\""},
        {"\"\\ud800.\\udbff.\"", "\"\\ufffd.\\ufffd.\""},
        {"\"\\udc00\\udfff\"", "\"\\ufffd\\ufffd\""},
        {"\"\\ud83d\\ue000\"", "\"\\ufffd\\ue000\""},
        {"\"\\ud83d\\udbffx\"", "\"\\ufffd\\ufffdx\""},
        {"\"\\u000@ \\u000` \\u000g \\u000G \\u000/ \\u000:\"",
         "\"\\\\u000@ \\\\u000` \\\\u000g \\\\u000G \\\\u000/ \\\\u000:\""},
        {"\"\\u09aF\"", "\"\\u09aF\""},
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
        cmocka_unit_test(numbers_obey_the_grammar),
        cmocka_unit_test(cut_values_close_with_the_least),
        cmocka_unit_test(a_container_is_fresh_until_its_first_value),
        cmocka_unit_test(long_white_space_after_a_comma_is_shortened),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(small_mistakes_in_strings_are_mended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
