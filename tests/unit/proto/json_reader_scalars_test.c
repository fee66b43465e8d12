/*
 * Scalars of JSON at the bounds of their grammar. Each document is a heap block of exactly its size,
 * so that the address sanitizer sees a read beyond its end.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/json_reader.h"
#include "proto/limits.h"

struct document {
    char *bytes;
    struct json_reader reader;
};

static struct document open_exact(const char *json)
{
    size_t count = strlen(json);
    struct document document = {.bytes = malloc(count ? count : 1)};
    assert_non_null(document.bytes);
    memcpy(document.bytes, json, count);
    document.reader = json_reader_open(document.bytes, count);
    return document;
}

/* How many bytes of the document have been read. */
static size_t position(const struct document *document)
{
    return (size_t)(document->reader.at - document->bytes);
}

static void whole_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint64_t value;
        size_t bytes; /* 0: not a whole number */
    } cases[] = {
        {"0", 0, 1},
        {"9", 9, 1},
        {"10", 10, 2},
        {"90", 90, 2},
        {" 7 ", 7, 2},
        {"0,", 0, 1},
        {"0/", 0, 1},
        {"0:", 0, 1},
        {"4294967295", 4294967295, 10},
        {"4294967296", 4294967296, 10},
        {"18446744073709551615", UINT64_MAX, 20},
        {"18446744073709551616", 0, 0},
        {"18446744073709551620", 0, 0},
        {"00", 0, 0},
        {"09", 0, 0},
        {"01", 0, 0},
        {"-1", 0, 0},
        {"", 0, 0},
        {"1.", 0, 0},
        {"1.0", 0, 0},
        {"1e2", 0, 0},
        {"1E2", 0, 0},
        {"/", 0, 0},
        {":", 0, 0},
        {"a", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct document document = open_exact(cases[i].json);
        assert_true(json_reader_u64(&document.reader) == cases[i].value);
        assert_int_equal(document.reader.failed, cases[i].bytes == 0);
        if (cases[i].bytes > 0)
            assert_int_equal(position(&document), cases[i].bytes);
        free(document.bytes);

        document = open_exact(cases[i].json);
        bool fits = cases[i].bytes > 0 && cases[i].value <= UINT32_MAX;
        assert_int_equal(json_reader_u32(&document.reader), fits ? cases[i].value : 0);
        assert_int_equal(document.reader.failed, !fits);
        free(document.bytes);
    }
}

static void real_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        double value;
        size_t bytes; /* 0: not a number */
    } cases[] = {
        {"0", 0, 1},       {"-0.5", -0.5, 4}, {" 1e3", 1000, 4}, {"1E+2", 100, 4},
        {"25e-1", 2.5, 5}, {"1.25", 1.25, 4}, {"10", 10, 2},     {"9.9", 9.9, 3},
        {"3,", 3, 1},      {"3+4", 3, 1},     {"3-4", 3, 1},     {"1e999", INFINITY, 5},
        {"-", 0, 0},       {"01", 0, 0},      {"1.", 0, 0},      {"1.e5", 0, 0},
        {"1e", 0, 0},      {"1e+", 0, 0},     {"1e-", 0, 0},     {".5", 0, 0},
        {"+1", 0, 0},      {"", 0, 0},        {"-a", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct document document = open_exact(cases[i].json);
        assert_true(json_reader_f64(&document.reader) == cases[i].value);
        assert_int_equal(document.reader.failed, cases[i].bytes == 0);
        if (cases[i].bytes > 0)
            assert_int_equal(position(&document), cases[i].bytes);
        free(document.bytes);
    }
}

/* A number of very many digits is refused, and nothing is written beyond the reader's buffer. */
static void numbers_are_not_endless(void **state)
{
    (void)state;
    bool taken = true;
    for (size_t digits = 1; digits < 2000; digits++) {
        char json[2001];
        memset(json, '1', digits);
        json[digits] = '\0';
        struct document document = open_exact(json);
        double value = json_reader_f64(&document.reader);
        if (document.reader.failed)
            assert_true(value == 0 && digits > 20);
        else
            assert_true(taken && position(&document) == digits && value >= 1);
        taken = !document.reader.failed;
        free(document.bytes);
    }
    assert_false(taken);
}

static void truth_values(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        bool value;
        size_t bytes; /* 0: not a truth value */
    } cases[] = {
        {"true", true, 4},  {"false", false, 5}, {" true,", true, 5}, {" false,", false, 6},
        {"trup", false, 0}, {"tru", false, 0},   {"fals", false, 0},  {"falsy", false, 0},
        {"null", false, 0}, {"", false, 0},      {"0", false, 0},     {"t", false, 0},
        {"f", false, 0},    {"nulls", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct document document = open_exact(cases[i].json);
        assert_int_equal(json_reader_bool(&document.reader), cases[i].value);
        assert_int_equal(document.reader.failed, cases[i].bytes == 0);
        if (cases[i].bytes > 0)
            assert_int_equal(position(&document), cases[i].bytes);
        free(document.bytes);
    }
}

static void escapes(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *text; /* NULL: no string */
    } cases[] = {
        {"\"\\u00af\\u00FA\\u0f0F\"", "\xC2\xAF\xC3\xBA\xE0\xBC\x8F"},
        {"\"\\ud7ff\"", "\xED\x9F\xBF"},
        {"\"\\ue000\"", "\xEE\x80\x80"},
        {"\"\\uffff\"", "\xEF\xBF\xBF"},
        {"\"\\ud800\\udc00\"", "\xF0\x90\x80\x80"},
        {"\"\\udbff\\udfff\"", "\xF4\x8F\xBF\xBF"},
        {"\"\\ud801\\udc37\"", "\xF0\x90\x90\xB7"},
        {"\"\x1f\"", NULL},
        {"\" ~\x7f\"", " ~\x7f"},
        {"\"\\ud800\\udbff\"", NULL},
        {"\"\\ud800\\ue000\"", NULL},
        {"\"\\udfff\"", NULL},
        {"\"\\udbff\"", NULL},
        {"\"\\udc00\\udc00\"", NULL},
        {"\"\\ud800\\u", NULL},
        {"\"\\ud800\\udc0", NULL},
        {"\"\\ud800\\udc00", NULL},
        {"\"\\u004", NULL},
        {"\"\\u0041", NULL},
        {"\"\\u00g0\"", NULL},
        {"\"\\u00G0\"", NULL},
        {"\"\\u00/0\"", NULL},
        {"\"\\u00:0\"", NULL},
        {"\"\\u00@0\"", NULL},
        {"\"\\u00`0\"", NULL},
        {"\"\\", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[16] = "";
        struct document document = open_exact(cases[i].json);
        size_t bytes = json_reader_string(&document.reader, text, sizeof text);
        assert_int_equal(document.reader.failed, cases[i].text == NULL);
        assert_int_equal(bytes, cases[i].text ? strlen(cases[i].text) : 0);
        if (cases[i].text) {
            assert_memory_equal(text, cases[i].text, bytes);
            assert_int_equal(position(&document), strlen(cases[i].json));
        }
        free(document.bytes);
    }
}

static void strings_fill_their_room_and_no_more(void **state)
{
    (void)state;
    char text[4];
    struct document document = open_exact("\"a\\u00e9b\"");
    assert_int_equal(json_reader_string(&document.reader, text, 4), 4);
    assert_false(document.reader.failed);
    free(document.bytes);
    document = open_exact("\"a\\u00e9b\"");
    assert_int_equal(json_reader_string(&document.reader, text, 3), 0);
    assert_true(document.reader.failed);
    free(document.bytes);
}

static void skipped_values_end_where_they_should(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        size_t bytes; /* 0: no value */
    } cases[] = {
        {"12", 2},  {"12,", 2},      {"12:", 2},     {"12]", 2},      {"12}", 2},
        {"12 ", 2}, {"12\n", 2},     {"12\r", 2},    {"12\t", 2},     {"12\"", 2},
        {"12[", 2}, {"12{", 2},      {"\"a\"", 3},   {"\"\\\"\"", 4}, {"\"\\\\\"x", 4},
        {"\"a", 0}, {"\"a\\", 0},    {"\"a\\\"", 0}, {"\"", 0},       {"[1", 0},
        {"[", 0},   {"{\"a\":1", 0}, {"", 0},        {",", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct document document = open_exact(cases[i].json);
        size_t bytes = 99;
        json_reader_skip(&document.reader, &bytes);
        assert_int_equal(document.reader.failed, cases[i].bytes == 0);
        assert_int_equal(bytes, cases[i].bytes);
        free(document.bytes);
    }
}

static void skipping_is_bounded_in_depth(void **state)
{
    (void)state;
    char json[2 * (LIMIT_JSON_DEPTH + 1) + 1];
    for (size_t depth = LIMIT_JSON_DEPTH; depth <= LIMIT_JSON_DEPTH + 1; depth++) {
        memset(json, '[', depth);
        memset(json + depth, ']', depth);
        json[2 * depth] = '\0';
        struct document document = open_exact(json);
        size_t bytes = 0;
        json_reader_skip(&document.reader, &bytes);
        assert_int_equal(document.reader.failed, depth > LIMIT_JSON_DEPTH);
        free(document.bytes);
    }
}

static void checking_is_bounded_in_depth(void **state)
{
    (void)state;
    char json[2 * (LIMIT_JSON_DEPTH + 1) + 1];
    for (size_t depth = LIMIT_JSON_DEPTH; depth <= LIMIT_JSON_DEPTH + 1; depth++) {
        memset(json, '[', depth);
        memset(json + depth, ']', depth);
        json[2 * depth] = '\0';
        struct document document = open_exact(json);
        json_reader_check(&document.reader);
        assert_int_equal(document.reader.failed, depth > LIMIT_JSON_DEPTH);
        free(document.bytes);
    }
}

static void a_zero_byte_ends_a_skipped_number(void **state)
{
    (void)state;
    struct json_reader reader = json_reader_open("12\0004", 4);
    size_t bytes = 0;
    json_reader_skip(&reader, &bytes);
    assert_int_equal(bytes, 2);
}

static void members_that_do_not_come(void **state)
{
    (void)state;
    static const char *const documents[] = {"{\"a\":1,", "{\"a\":1,}", "{\"a\":1",
                                            "{\"a\":1 \"b\":2}", "{\"a\":1]"};
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        struct document document = open_exact(documents[i]);
        char name[8];
        size_t bytes = 99;
        json_reader_enter(&document.reader, '{');
        assert_true(json_reader_next_member(&document.reader, name, sizeof name, &bytes));
        assert_int_equal(bytes, 1);
        assert_int_equal(json_reader_u32(&document.reader), 1);
        assert_false(json_reader_next_member(&document.reader, name, sizeof name, &bytes));
        assert_int_equal(bytes, 0);
        assert_true(document.reader.failed);
        assert_false(json_reader_next_member(&document.reader, name, sizeof name, &bytes));
        assert_false(json_reader_next_element(&document.reader));
        free(document.bytes);
    }
}

/* Documents that the strict check accepts end exactly where the value ends. */
static void checks_up_to_the_last_byte(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        bool valid;
    } cases[] = {
        {"true", true},
        {"tru", false},
        {"false", true},
        {"fals", false},
        {"null", true},
        {"nul", false},
        {"1", true},
        {"-", false},
        {"\"\"", true},
        {"\"", false},
        {"\"a", false},
        {"[", false},
        {"{", false},
        {"{\"a\"", false},
        {"{\"a\":", false},
        {"[1,", false},
        {"[]", true},
        {"{}", true},
        {"[[]]", true},
        {"", false},
        {"{\"\":0}", true},
        {"[1,2]", true},
        {"[1 2]", false},
        {"{\"a\":1,\"b\":2}", true},
        {"{\"a\":1,2}", false},
        {"[{\"a\":1},2]", true},
        {"{\"a\":[1,2]}", true},
        {"{\"a\":[1],\"b\":2}", true},
        {"[[{\"a\":1,\"b\":2}],3]", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct document document = open_exact(cases[i].json);
        json_reader_check(&document.reader);
        assert_int_equal(document.reader.failed, !cases[i].valid);
        if (cases[i].valid)
            assert_int_equal(position(&document), strlen(cases[i].json));
        free(document.bytes);
    }
}

/* The bound on names counts their bytes with both quotes. */
static void names_are_bounded(void **state)
{
    (void)state;
    for (size_t bytes = LIMIT_JSON_NAME_BYTES - 2; bytes <= LIMIT_JSON_NAME_BYTES - 1; bytes++) {
        char json[LIMIT_JSON_NAME_BYTES + 16] = "{\"";
        memset(json + 2, 'n', bytes);
        memcpy(json + 2 + bytes, "\":1}", 5);
        struct document document = open_exact(json);
        json_reader_check(&document.reader);
        assert_int_equal(document.reader.failed, bytes + 2 > LIMIT_JSON_NAME_BYTES);
        free(document.bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(real_numbers),
        cmocka_unit_test(numbers_are_not_endless),
        cmocka_unit_test(truth_values),
        cmocka_unit_test(escapes),
        cmocka_unit_test(strings_fill_their_room_and_no_more),
        cmocka_unit_test(skipped_values_end_where_they_should),
        cmocka_unit_test(skipping_is_bounded_in_depth),
        cmocka_unit_test(checking_is_bounded_in_depth),
        cmocka_unit_test(a_zero_byte_ends_a_skipped_number),
        cmocka_unit_test(members_that_do_not_come),
        cmocka_unit_test(checks_up_to_the_last_byte),
        cmocka_unit_test(names_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
