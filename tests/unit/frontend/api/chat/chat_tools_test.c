/*
 * Tools of a request: their normalized form, and errors with their place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/chat/chat_tools.h"
#include "frontend/base/text_buffer.h"

#define TOOL(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"

static enum result read_tools(const char *json, struct generation_request *request,
                              struct api_error *error)
{
    *request = (struct generation_request){.body = cJSON_Parse(json)};
    *error = (struct api_error){0};
    assert_non_null(request->body);
    return chat_tools_read(request->body, request, error);
}

static void tools_become_what_templates_expect(void **state)
{
    (void)state;
    struct generation_request request;
    struct api_error error;
    assert_int_equal(
        read_tools("{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a.b\","
                   "\"description\":null,\"strict\":true,\"parameters\":null}},"
                   "{\"type\":\"function\",\"function\":{\"name\":\"c\",\"description\":\"d\","
                   "\"parameters\":{\"type\":\"object\",\"x\":null}}}]}",
                   &request, &error),
        RESULT_OK);
    char *text = cJSON_PrintUnformatted(request.tools);
    assert_string_equal(
        text, "[{\"type\":\"function\",\"function\":{\"name\":\"a.b\",\"strict\":true,"
              "\"parameters\":{\"type\":\"object\",\"properties\":{}}}},{\"type\":\"function\","
              "\"function\":{\"name\":\"c\",\"description\":\"d\",\"parameters\":{\"type\":"
              "\"object\",\"x\":null}}}]");
    free(text);
    assert_int_equal(request.tool_choice, TOOL_CHOICE_AUTO);
    assert_false(request.single_tool_call);
    generation_request_fini(&request);
}

static void tool_choices_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        enum tool_choice choice;
        bool has_tools;
        const char *name;
        bool single;
    } cases[] = {
        {"{}", TOOL_CHOICE_AUTO, false, NULL, false},
        {"{\"tools\":null,\"tool_choice\":null,\"functions\":null}", TOOL_CHOICE_AUTO, false, NULL,
         false},
        {"{\"tools\":[],\"tool_choice\":\"none\"}", TOOL_CHOICE_NONE, false, NULL, false},
        {"{\"tools\":[" TOOL("f") "],\"parallel_tool_calls\":true}", TOOL_CHOICE_AUTO, true, NULL,
         false},
        {"{\"tools\":[" TOOL("f") "],\"tool_choice\":\"required\",\"parallel_tool_calls\":false}",
         TOOL_CHOICE_REQUIRED, true, NULL, true},
        {"{\"tools\":[" TOOL("f") "," TOOL("g") "],\"tool_choice\":{\"type\":\"function\","
                                                "\"function\":{\"name\":\"g\"}}}",
         TOOL_CHOICE_NAMED, true, "g", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct generation_request request;
        struct api_error error;
        if (read_tools(cases[i].json, &request, &error) != RESULT_OK)
            fail_msg("%s: %s", cases[i].json, error.message);
        assert_int_equal(request.tool_choice, cases[i].choice);
        assert_int_equal(request.tools != NULL, cases[i].has_tools);
        assert_int_equal(request.single_tool_call, cases[i].single);
        if (cases[i].name)
            assert_string_equal(request.tool_name, cases[i].name);
        else
            assert_null(request.tool_name);
        generation_request_fini(&request);
    }
}

static void refusals_name_their_place(void **state)
{
    (void)state;
#define NAMED(name) "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"
    static const struct {
        const char *json;
        const char *param;
    } cases[] = {
        {"{\"tools\":{}}", "tools"},
        {"{\"tools\":[3]}", "tools[0]"},
        {"{\"tools\":[{}]}", "tools[0].type"},
        {"{\"tools\":[{\"type\":\"web_search\"}]}", "tools[0].type"},
        {"{\"tools\":[{\"type\":\"function\"}]}", "tools[0].function"},
        {"{\"tools\":[{\"type\":\"function\",\"function\":{}}]}", "tools[0].function.name"},
        {"{\"tools\":[" TOOL("") "]}", "tools[0].function.name"},
        {"{\"tools\":[" TOOL("f") "," TOOL("a b") "]}", "tools[1].function.name"},
        {"{\"tools\":[" TOOL("f") "," TOOL("g") "," TOOL("f") "]}", "tools[2].function.name"},
        {"{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":1}}]}",
         "tools[0].function.description"},
        {"{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":1}}]}",
         "tools[0].function.strict"},
        {"{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":[]}}]}",
         "tools[0].function.parameters"},
        {"{\"tools\":[" TOOL("f") "],\"tool_choice\":\"any\"}", "tool_choice"},
        {"{\"tools\":[" TOOL("f") "],\"tool_choice\":3}", "tool_choice"},
        {"{\"tools\":[" TOOL("f") "],\"tool_choice\":{\"type\":\"function\"}}", "tool_choice"},
        {"{\"tools\":[" TOOL("f") "]," NAMED("g") "}", "tool_choice"},
        {"{\"tool_choice\":\"required\"}", "tool_choice"},
        {"{" NAMED("g") "}", "tool_choice"},
        {"{\"parallel_tool_calls\":\"no\"}", "parallel_tool_calls"},
        {"{\"functions\":[]}", "functions"},
        {"{\"function_call\":\"auto\"}", "function_call"},
    };
#undef NAMED
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct generation_request request;
        struct api_error error;
        if (read_tools(cases[i].json, &request, &error) == RESULT_OK || error.status != 400 ||
            strcmp(error.param, cases[i].param) != 0)
            fail_msg("%s: status %d, param '%s'", cases[i].json, error.status, error.param);
        generation_request_fini(&request);
    }
}

/* Another API's names for the same places. */
static void places_are_named_as_in_the_calling_api(void **state)
{
    (void)state;
    static const struct chat_tools_words words = {
        .list = "tools", .function = "", .parameters = "input_schema", .choice = "tool_choice"};
    struct api_error error = {0};
    cJSON *tools =
        cJSON_Parse("[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":\"x\"}}]");
    assert_int_equal(chat_tools_normalize(tools, &words, &error), RESULT_INVALID);
    assert_string_equal(error.param, "tools[0].input_schema");
    cJSON_Delete(tools);
}

/* {"tools":[{…"parameters":{"a":{"a":…}}}]}, or one description of `bytes` bytes. */
static void write_schema(struct text_buffer *out, size_t levels, size_t bytes)
{
    text_buffer_append_text(out, "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                                 "\"parameters\":");
    for (size_t i = 1; i < levels; i++)
        text_buffer_append_text(out, "{\"a\":");
    text_buffer_append_text(out, "{\"description\":\"");
    for (size_t i = 0; i < bytes; i++)
        text_buffer_append_text(out, "x");
    text_buffer_append_text(out, "\"}");
    for (size_t i = 1; i < levels; i++)
        text_buffer_append_text(out, "}");
    text_buffer_append_text(out, "}}]}");
}

static void schemas_and_counts_are_bounded(void **state)
{
    (void)state;
    static const struct {
        size_t levels;
        size_t bytes;
        bool good;
    } cases[] = {{LIMIT_TOOL_DEPTH - 1, 1, true},
                 {LIMIT_TOOL_DEPTH, 1, false},
                 {1, LIMIT_TOOL_SCHEMA_BYTES - 100, true},
                 {1, LIMIT_TOOL_SCHEMA_BYTES, false}};
    struct generation_request request;
    struct api_error error;
    struct text_buffer json = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        text_buffer_clear(&json);
        write_schema(&json, cases[i].levels, cases[i].bytes);
        assert_int_equal(read_tools(json.bytes, &request, &error) == RESULT_OK, cases[i].good);
        if (!cases[i].good)
            assert_string_equal(error.param, "tools[0].function.parameters");
        generation_request_fini(&request);
    }
    text_buffer_clear(&json);
    text_buffer_append_text(&json, "{\"tools\":[");
    for (unsigned i = 0; i <= LIMIT_TOOLS; i++)
        text_buffer_append_format(
            &json, "%s{\"type\":\"function\",\"function\":{\"name\":\"f%u\"}}", i ? "," : "", i);
    text_buffer_append_text(&json, "]}");
    assert_int_equal(read_tools(json.bytes, &request, &error), RESULT_INVALID);
    assert_string_equal(error.param, "tools");
    generation_request_fini(&request);
    text_buffer_fini(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tools_become_what_templates_expect),
        cmocka_unit_test(tool_choices_are_read),
        cmocka_unit_test(refusals_name_their_place),
        cmocka_unit_test(places_are_named_as_in_the_calling_api),
        cmocka_unit_test(schemas_and_counts_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
