/*
 * argument_type: the types that a tool's schema allows for an argument, and bare text as a value of
 * one of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "frontend/reply/argument_type.h"

#define STRING  ((unsigned)ARGUMENT_STRING)
#define INTEGER ((unsigned)ARGUMENT_INTEGER)
#define NUMBER  ((unsigned)ARGUMENT_NUMBER)
#define BOOLEAN ((unsigned)ARGUMENT_BOOLEAN)
#define NOTHING ((unsigned)ARGUMENT_NULL)
#define OBJECT  ((unsigned)ARGUMENT_OBJECT)
#define ARRAY   ((unsigned)ARGUMENT_ARRAY)

/* Types of argument "a", whose schema this is; `definitions`: further members of the parameters. */
static unsigned types_with(const char *schema, const char *definitions)
{
    struct text_buffer text = {0};
    text_buffer_append_format(&text,
                              "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":"
                              "{%s\"properties\":{\"b\":{\"type\":\"null\"},\"a\":%s}}}}",
                              definitions, schema);
    cJSON *tool = cJSON_Parse(text.bytes);
    assert_non_null(tool);
    unsigned types = argument_type_find(tool, "a");
    cJSON_Delete(tool);
    text_buffer_fini(&text);
    return types;
}

static unsigned types_of(const char *schema)
{
    return types_with(schema, "");
}

static void expect_json(unsigned types, const char *text, const char *expected)
{
    struct text_buffer out = {0};
    text_buffer_append_text(&out, ">");
    /* The bytes after the text must not count. */
    size_t length = strlen(text);
    struct text_buffer copy = {0};
    text_buffer_append(&copy, text, length);
    text_buffer_append_text(&copy, "}7 ");
    argument_type_write(types, copy.bytes, length, &out);
    assert_string_equal(out.bytes + 1, expected);
    text_buffer_fini(&copy);
    text_buffer_fini(&out);
}

static void tools_are_found_by_name(void **state)
{
    (void)state;
    cJSON *tools =
        cJSON_Parse("[{\"type\":\"function\"},{\"function\":{\"name\":5}},"
                    "{\"function\":{\"name\":\"get\"}},{\"function\":{\"name\":\"Get\"}},"
                    "{\"function\":{\"name\":\"put\"}}]");
    assert_ptr_equal(tool_list_find(tools, "get"), cJSON_GetArrayItem(tools, 2));
    assert_ptr_equal(tool_list_find(tools, "Get"), cJSON_GetArrayItem(tools, 3));
    assert_ptr_equal(tool_list_find(tools, "put"), cJSON_GetArrayItem(tools, 4));
    assert_null(tool_list_find(tools, "ge"));
    assert_null(tool_list_find(tools, "x"));
    assert_null(tool_list_find(tools, "a"));
    assert_null(tool_list_find(NULL, "get"));
    cJSON_Delete(tools);
}

static void types_are_read_by_name(void **state)
{
    (void)state;
    assert_int_equal(types_of("{\"type\":\"string\"}"), STRING);
    assert_int_equal(types_of("{\"type\":\"integer\"}"), INTEGER);
    assert_int_equal(types_of("{\"type\":\"number\"}"), NUMBER);
    assert_int_equal(types_of("{\"type\":\"boolean\"}"), BOOLEAN);
    assert_int_equal(types_of("{\"type\":\"null\"}"), NOTHING);
    assert_int_equal(types_of("{\"type\":\"object\"}"), OBJECT);
    assert_int_equal(types_of("{\"type\":\"array\"}"), ARRAY);
    assert_int_equal(types_of("{\"type\":[\"integer\",\"null\"]}"), INTEGER | NOTHING);
    assert_int_equal(types_of("{\"type\":\"zzz\"}"), 0);
    assert_int_equal(types_of("{\"type\":\"aaa\"}"), 0);
    assert_int_equal(types_of("{\"type\":5}"), 0);
    assert_int_equal(types_of("{}"), 0);
    assert_int_equal(types_of("true"), 0);
    assert_int_equal(argument_type_find(NULL, "a"), 0);
}

static void values_of_enum_and_const_have_types(void **state)
{
    (void)state;
    assert_int_equal(types_of("{\"enum\":[\"x\",\"y\"]}"), STRING);
    assert_int_equal(types_of("{\"enum\":[1,null]}"), NUMBER | NOTHING);
    assert_int_equal(types_of("{\"enum\":[true,{},[]]}"), BOOLEAN | OBJECT | ARRAY);
    assert_int_equal(types_of("{\"const\":\"x\"}"), STRING);
    assert_int_equal(types_of("{\"const\":[]}"), ARRAY);
    /* A type takes precedence. */
    assert_int_equal(types_of("{\"type\":\"integer\",\"enum\":[1,2],\"const\":\"x\"}"), INTEGER);
}

static void alternatives_add_their_types(void **state)
{
    (void)state;
    assert_int_equal(types_of("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}"),
                     INTEGER | NOTHING);
    assert_int_equal(types_of("{\"oneOf\":[{\"type\":\"array\"}]}"), ARRAY);
    assert_int_equal(types_of("{\"allOf\":[{\"type\":\"object\"}],\"type\":\"string\"}"),
                     OBJECT | STRING);
    assert_int_equal(types_of("{\"noneOf\":[{\"type\":\"object\"}]}"), 0);
}

static void references_are_followed_within_the_parameters(void **state)
{
    (void)state;
    static const char definitions[] =
        "\"$defs\":{\"N\":{\"type\":\"integer\"},\"In\":{\"er\":{\"type\":\"array\"}}},";
    assert_int_equal(types_with("{\"$ref\":\"#/$defs/N\"}", definitions), INTEGER);
    assert_int_equal(types_with("{\"$ref\":\"#/$defs/In/er\"}", definitions), ARRAY);
    assert_int_equal(types_with("{\"$ref\":\"#/properties/b\"}", definitions), NOTHING);
    assert_int_equal(types_with("{\"$ref\":\"#/$defs/M\"}", definitions), 0);
    assert_int_equal(types_with("{\"$ref\":\"#/$defs/M/er\"}", definitions), 0);
    assert_int_equal(types_with("{\"$ref\":\"#$defs/N\"}", definitions), 0);
    assert_int_equal(types_with("{\"$ref\":\"##$defs/N\"}", definitions), 0);
    assert_int_equal(types_with("{\"$ref\":\"//$defs/N\"}", definitions), 0);
    assert_int_equal(types_with("{\"$ref\":\"a/$defs/N\"}", definitions), 0);
    assert_int_equal(types_with("{\"$ref\":5}", definitions), 0);
}

static void long_steps_of_references_are_not_followed(void **state)
{
    (void)state;
    for (int length = 127; length <= 128; length++) {
        char name[129], definitions[256], schema[256];
        memset(name, 'n', sizeof name);
        name[length] = '\0';
        snprintf(definitions, sizeof definitions, "\"%s\":{\"type\":\"integer\"},", name);
        snprintf(schema, sizeof schema, "{\"$ref\":\"#/%s\"}", name);
        assert_int_equal(types_with(schema, definitions), length == 127 ? INTEGER : 0);
    }
}

static void circular_references_end(void **state)
{
    (void)state;
    static const char definitions[] =
        "\"$defs\":{\"A\":{\"anyOf\":[{\"$ref\":\"#/$defs/A\"},{\"$ref\":\"#/$defs/A\"},"
        "{\"type\":\"number\"}]}},";
    assert_int_equal(types_with("{\"$ref\":\"#/$defs/A\"}", definitions) & ~NUMBER, 0);
    assert_int_equal(types_with("{\"type\":\"string\",\"$ref\":\"#/properties/a\"}", definitions),
                     STRING);
}

/* The schema itself is the first of 256 parts. */
static void parts_beyond_the_budget_count_as_absent(void **state)
{
    (void)state;
    for (int before = 254; before <= 255; before++) {
        struct text_buffer schema = {0};
        text_buffer_append_text(&schema, "{\"anyOf\":[");
        for (int i = 0; i < before; i++)
            text_buffer_append_text(&schema, "{\"type\":\"string\"},");
        text_buffer_append_text(&schema, "{\"type\":\"integer\"}]}");
        assert_int_equal(types_of(schema.bytes), before == 254 ? STRING | INTEGER : STRING);
        text_buffer_fini(&schema);
    }
}

/* The schema itself is the first of 16 levels. */
static void levels_beyond_the_budget_count_as_absent(void **state)
{
    (void)state;
    static const char *const openings[] = {"{\"anyOf\":[", "{\"allOf\":["};
    for (int levels = 15; levels <= 16; levels++) {
        struct text_buffer schema = {0};
        for (int i = 0; i < levels; i++)
            text_buffer_append_text(&schema, openings[i % 2]);
        text_buffer_append_text(&schema, "{\"type\":\"integer\"}");
        for (int i = 0; i < levels; i++)
            text_buffer_append_text(&schema, "]}");
        assert_int_equal(types_of(schema.bytes), levels == 15 ? INTEGER : 0);
        text_buffer_fini(&schema);

        struct text_buffer definitions = {0};
        for (int i = 1; i < levels; i++)
            text_buffer_append_format(&definitions, "\"d%d\":{\"$ref\":\"#/d%d\"},", i, i + 1);
        text_buffer_append_format(&definitions, "\"d%d\":{\"type\":\"integer\"},", levels);
        assert_int_equal(types_with("{\"$ref\":\"#/d1\"}", definitions.bytes),
                         levels == 15 ? INTEGER : 0);
        text_buffer_fini(&definitions);
    }
}

static void text_is_a_string_where_only_that_is_allowed(void **state)
{
    (void)state;
    expect_json(STRING, "5", "\"5\"");
    expect_json(STRING, " true\n", "\" true\\n\"");
    expect_json(STRING, "{\"a\":1}", "\"{\\\"a\\\":1}\"");
    expect_json(STRING, "", "\"\"");
    expect_json(STRING, "null", "\"null\"");
}

static void text_of_unknown_type_is_its_json_value(void **state)
{
    (void)state;
    expect_json(0, "5", "5");
    expect_json(0, "1.5e3", "1.5e3");
    expect_json(0, "true", "true");
    expect_json(0, "false", "false");
    expect_json(0, "null", "null");
    expect_json(0, "[1]", "[1]");
    expect_json(0, "{\"a\":1}", "{\"a\":1}");
    expect_json(0, "\"x\"", "\"x\"");
    expect_json(0, "True", "\"True\"");
    expect_json(0, "Paris", "\"Paris\"");
    expect_json(0, "5 6", "\"5 6\"");
    expect_json(0, "{'a': 1}", "\"{'a': 1}\"");
    expect_json(0, "", "\"\"");
    expect_json(0, " ", "\" \"");
}

static void values_of_allowed_types_are_taken(void **state)
{
    (void)state;
    const unsigned all = STRING | INTEGER | NUMBER | BOOLEAN | NOTHING | OBJECT | ARRAY;
    static const struct {
        const char *text;
        unsigned types;
        const char *value;
        const char *string;
    } cases[] = {
        {"5", ARGUMENT_INTEGER | ARGUMENT_NUMBER, "5", "\"5\""},
        {"-12", ARGUMENT_INTEGER | ARGUMENT_NUMBER, "-12", "\"-12\""},
        {"1.5", ARGUMENT_NUMBER, "1.5", "\"1.5\""},
        {"1e3", ARGUMENT_NUMBER, "1e3", "\"1e3\""},
        {"1E3", ARGUMENT_NUMBER, "1E3", "\"1E3\""},
        {"true", ARGUMENT_BOOLEAN, "true", "\"true\""},
        {"False", ARGUMENT_BOOLEAN, "false", "\"False\""},
        {"null", ARGUMENT_NULL, "null", "\"null\""},
        {"None", ARGUMENT_NULL, "null", "\"None\""},
        {"{\"a\":1}", ARGUMENT_OBJECT, "{\"a\":1}", "\"{\\\"a\\\":1}\""},
        {"[1]", ARGUMENT_ARRAY, "[1]", "\"[1]\""},
        {"\"x\"", 0, "\"x\"", "\"\\\"x\\\"\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (unsigned type = STRING; type <= ARRAY; type *= 2) {
            bool fits = (cases[i].types & type) != 0;
            expect_json(type, cases[i].text, fits ? cases[i].value : cases[i].string);
            expect_json(STRING | type, cases[i].text, fits ? cases[i].value : cases[i].string);
        }
        expect_json(all & ~cases[i].types, cases[i].text, cases[i].string);
    }
}

static void blanks_around_a_value_do_not_count(void **state)
{
    (void)state;
    expect_json(INTEGER, " \t\r\n5\n\r\t ", "5");
    expect_json(BOOLEAN, "\nTRUE ", "true");
    expect_json(BOOLEAN, "\ttrue\t", "true");
    expect_json(NOTHING, "\rNone\r", "null");
    expect_json(INTEGER, "\v5", "\"\\u000b5\"");
    expect_json(INTEGER, " x ", "\" x \""); /* a string keeps them */
    expect_json(INTEGER, " \n", "\" \\n\"");
    expect_json(OBJECT, " ", "\" \"");
    expect_json(ARRAY, "", "\"\"");
}

static void words_count_whole_only(void **state)
{
    (void)state;
    expect_json(BOOLEAN, "tru", "\"tru\"");
    expect_json(BOOLEAN, "truth", "\"truth\"");
    expect_json(BOOLEAN, "trues", "\"trues\"");
    expect_json(BOOLEAN, "yes!", "\"yes!\"");
    expect_json(BOOLEAN, "None", "\"None\"");
    expect_json(NOTHING, "nil", "\"nil\"");
    expect_json(NOTHING, "nul", "\"nul\"");
}

static void lists_and_dictionaries_of_python_are_converted(void **state)
{
    (void)state;
    expect_json(OBJECT, "{'a': True}", "{\"a\":true}");
    expect_json(ARRAY, " ['x', None] ", "[\"x\",null]");
    expect_json(OBJECT | STRING, "{'a': 1}", "{\"a\":1}");
    expect_json(OBJECT, "['x']", "\"['x']\"");
    expect_json(ARRAY, "{'a': 1}", "\"{'a': 1}\"");
    expect_json(INTEGER, "['x']", "\"['x']\"");
    expect_json(ARRAY, "['x'", "\"['x'\"");
    expect_json(ARRAY, "x", "\"x\"");
    expect_json(ARRAY, "['\\U0010ffff']", "[\"\\udbff\\udfff\"]"); /* the last character */
    expect_json(ARRAY, "['\\U00110000']", "\"['\\\\U00110000']\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tools_are_found_by_name),
        cmocka_unit_test(types_are_read_by_name),
        cmocka_unit_test(values_of_enum_and_const_have_types),
        cmocka_unit_test(alternatives_add_their_types),
        cmocka_unit_test(references_are_followed_within_the_parameters),
        cmocka_unit_test(long_steps_of_references_are_not_followed),
        cmocka_unit_test(circular_references_end),
        cmocka_unit_test(parts_beyond_the_budget_count_as_absent),
        cmocka_unit_test(levels_beyond_the_budget_count_as_absent),
        cmocka_unit_test(text_is_a_string_where_only_that_is_allowed),
        cmocka_unit_test(text_of_unknown_type_is_its_json_value),
        cmocka_unit_test(values_of_allowed_types_are_taken),
        cmocka_unit_test(blanks_around_a_value_do_not_count),
        cmocka_unit_test(words_count_whole_only),
        cmocka_unit_test(lists_and_dictionaries_of_python_are_converted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
