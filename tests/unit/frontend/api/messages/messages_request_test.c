/*
 * Fields of a messages request: values, errors by name, tools and choices in OpenAI's shape,
 * thinking, the repair of backslashes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <string.h>

#include "frontend/api/messages/messages_request.h"
#include "tests/support/tiny_assets.h"

#define HELLO "\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]"

static struct model_assets assets;

static int open_assets(void **state)
{
    (void)state;
    tiny_assets_open(&assets, NULL);
    return 0;
}

static int close_assets(void **state)
{
    (void)state;
    tiny_assets_close(&assets);
    return 0;
}

static enum result parse(const char *json, struct generation_request *request,
                         struct api_error *error)
{
    return messages_request_parse(&(struct parse_context){.assets = &assets, .random_seed = 77},
                                  json, strlen(json), request, error);
}

static void parse_good(const char *json, struct generation_request *request)
{
    struct api_error error;
    enum result result = parse(json, request, &error);
    if (result != RESULT_OK)
        print_error("%s: %s\n", error.param, error.message);
    assert_int_equal(result, RESULT_OK);
}

static void every_field_is_read(void **state)
{
    (void)state;
    struct generation_request request;
    parse_good(
        "{\"model\":\"tiny\",\"temperature\":0.5,\"top_p\":0.25,\"top_k\":40,\"stream\":true,"
        "\"stop_sequences\":[\"a\",\"bc\"],\"metadata\":{\"user_id\":\"u\"},\"service_tier\":"
        "\"auto\",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":8},\"output_config\":{"
        "\"effort\":\"max\"},\"cache_control\":{\"type\":\"ephemeral\"},\"speed\":null," HELLO "}",
        &request);
    assert_int_equal(request.max_new_tokens, 9);
    assert_true(request.sampling.temperature == 0.5f && request.sampling.top_p == 0.25f);
    assert_int_equal(request.sampling.top_k, 40);
    assert_int_equal(request.sampling.seed, 77);
    assert_true(request.stream);
    assert_int_equal(request.stop_count, 2);
    assert_int_equal(request.thinking, THINKING_ON);
    assert_int_equal(request.thinking_budget, 8);
    assert_false(((struct messages_state *)request.own.state)->omits_thinking);
    const cJSON *effort = cJSON_GetObjectItem(request.template_variables, "reasoning_effort");
    assert_string_equal(effort->valuestring, "max");
    generation_request_fini(&request);
}

static void thinking_is_on_off_or_the_default(void **state)
{
    (void)state;
    struct generation_request request;
    parse_good("{" HELLO "}", &request);
    assert_int_equal(request.thinking, THINKING_UNSET);
    assert_true(request.thinking_budget == THINKING_BUDGET_NONE && !request.own.state);
    generation_request_fini(&request);
    parse_good("{\"thinking\":{\"type\":\"disabled\"}," HELLO "}", &request);
    assert_int_equal(request.thinking, THINKING_OFF);
    generation_request_fini(&request);
    parse_good("{\"thinking\":{\"type\":\"adaptive\",\"display\":\"omitted\"}," HELLO "}",
               &request);
    assert_int_equal(request.thinking, THINKING_ON);
    assert_true(request.thinking_budget == THINKING_BUDGET_NONE);
    assert_true(((struct messages_state *)request.own.state)->omits_thinking);
    generation_request_fini(&request);
}

#define TOOL                                                                                       \
    "{\"name\":\"f\",\"description\":\"d\",\"input_schema\":{\"type\":\"object\"},\"cache_"        \
    "control\":{"                                                                                  \
    "\"type\":\"ephemeral\"}}"

static void tools_and_choices_are_converted(void **state)
{
    (void)state;
    static const struct {
        const char *choice;
        enum tool_choice becomes;
        bool single;
    } cases[] = {
        {"null", TOOL_CHOICE_AUTO, false},
        {"{\"type\":\"auto\",\"disable_parallel_tool_use\":true}", TOOL_CHOICE_AUTO, true},
        {"{\"type\":\"any\"}", TOOL_CHOICE_REQUIRED, false},
        {"{\"type\":\"tool\",\"name\":\"f\"}", TOOL_CHOICE_NAMED, false},
        {"{\"type\":\"none\"}", TOOL_CHOICE_NONE, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct generation_request request;
        struct text_buffer body = {0};
        text_buffer_append_format(&body, "{\"tools\":[" TOOL "],\"tool_choice\":%s," HELLO "}",
                                  cases[i].choice);
        parse_good(body.bytes, &request);
        assert_int_equal(request.tool_choice, cases[i].becomes);
        assert_int_equal(request.single_tool_call, cases[i].single);
        char *tools = cJSON_PrintUnformatted(request.tools);
        assert_string_equal(tools, "[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                                   "\"description\":\"d\",\"parameters\":{\"type\":\"object\"}}}]");
        if (cases[i].becomes == TOOL_CHOICE_NAMED)
            assert_string_equal(request.tool_name, "f");
        cJSON_free(tools);
        text_buffer_fini(&body);
        generation_request_fini(&request);
    }
}

static void single_backslashes_are_repaired(void **state)
{
    (void)state;
    struct generation_request request;
    parse_good("{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\\d \\n\"}]}",
               &request);
    assert_string_equal(cJSON_GetObjectItem(request.messages->child, "content")->valuestring,
                        "a\\d \n");
    generation_request_fini(&request);
}

static void refusals_name_their_field(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        int status;
        const char *param;
    } cases[] = {
        {"", 400, ""},
        {"{\"a\":\"\\d\"", 400, ""},
        {"{\"messages\":[]}", 400, "max_tokens"},
        {"{\"max_tokens\":0}", 400, "max_tokens"},
        {"{\"max_tokens\":1}", 400, "messages"},
        {"{\"model\":\"other\"," HELLO "}", 404, "model"},
        {"{\"temperature\":\"x\"," HELLO "}", 400, "temperature"},
        {"{\"top_k\":1.5," HELLO "}", 400, "top_k"},
        {"{\"stream\":1," HELLO "}", 400, "stream"},
        {"{\"stop_sequences\":[1]," HELLO "}", 400, "stop_sequences"},
        {"{\"metadata\":1," HELLO "}", 400, "metadata"},
        {"{\"metadata\":{\"user_id\":1}," HELLO "}", 400, "metadata.user_id"},
        {"{\"thinking\":true," HELLO "}", 400, "thinking.type"},
        {"{\"thinking\":{\"type\":\"between_tools\"}," HELLO "}", 400, "thinking.type"},
        {"{\"thinking\":{\"type\":\"enabled\"}," HELLO "}", 400, "thinking.budget_tokens"},
        {"{\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":9}," HELLO "}", 400,
         "thinking.budget_tokens"},
        {"{\"thinking\":{\"type\":\"adaptive\",\"display\":\"loud\"}," HELLO "}", 400,
         "thinking.display"},
        {"{\"output_config\":{\"effort\":\"huge\"}," HELLO "}", 400, "output_config.effort"},
        {"{\"output_config\":{\"format\":{\"type\":\"json_schema\"}}," HELLO "}", 400,
         "output_config.format"},
        {"{\"container\":\"c\"," HELLO "}", 400, "container"},
        {"{\"mcp_servers\":[{}]," HELLO "}", 400, "mcp_servers"},
        {"{\"speed\":\"fast\"," HELLO "}", 400, "speed"},
        {"{\"response_format\":{\"type\":\"yaml\"}," HELLO "}", 400, "response_format"},
        {"{\"guided_json\":7," HELLO "}", 400, "guided_json"},
        {"{\"context_management\":{\"edits\":[{\"type\":\"clear_tool_uses_20250919\"}]}," HELLO "}",
         400, "context_management.edits"},
        {"{\"tools\":{}," HELLO "}", 400, "tools"},
        {"{\"tools\":[1]," HELLO "}", 400, "tools[0]"},
        {"{\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}]," HELLO "}", 400,
         "tools[0].type"},
        {"{\"tools\":[{\"name\":\"f\"}]," HELLO "}", 400, "tools[0].input_schema"},
        {"{\"tools\":[{\"input_schema\":{}}]," HELLO "}", 400, "tools[0].name"},
        {"{\"tools\":[{\"name\":\"f\",\"input_schema\":{},\"strict\":1}]," HELLO "}", 400,
         "tools[0].strict"},
        {"{\"tools\":[" TOOL "," TOOL "]," HELLO "}", 400, "tools[1].name"},
        {"{\"tool_choice\":\"auto\"," HELLO "}", 400, "tool_choice"},
        {"{\"tool_choice\":{\"type\":\"any\"}," HELLO "}", 400, "tool_choice"},
        {"{\"tool_choice\":{\"type\":\"tool\"},\"tools\":[" TOOL "]," HELLO "}", 400,
         "tool_choice.name"},
        {"{\"tool_choice\":{\"type\":\"tool\",\"name\":\"g\"},\"tools\":[" TOOL "]," HELLO "}", 400,
         "tool_choice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct generation_request request;
        struct api_error error = {0};
        enum result result = parse(cases[i].json, &request, &error);
        if (result == RESULT_OK || strcmp(error.param, cases[i].param) != 0)
            print_error("%s: '%s' %s\n", cases[i].json, error.param, error.message);
        assert_int_not_equal(result, RESULT_OK);
        assert_int_equal(error.status, cases[i].status);
        assert_string_equal(error.param, cases[i].param);
        assert_null(request.body);
    }
}

static void counting_needs_no_max_tokens(void **state)
{
    (void)state;
    static const char json[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}],\"thinking\":"
        "{\"type\":\"enabled\",\"budget_tokens\":5000}}";
    struct generation_request request;
    struct api_error error;
    const struct parse_context context = {.assets = &assets};
    assert_int_equal(
        messages_request_parse_prompt(&context, json, sizeof json - 1, &request, &error),
        RESULT_OK);
    assert_int_equal(request.thinking_budget, 5000);
    generation_request_fini(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(thinking_is_on_off_or_the_default),
        cmocka_unit_test(tools_and_choices_are_converted),
        cmocka_unit_test(single_backslashes_are_repaired),
        cmocka_unit_test(refusals_name_their_field),
        cmocka_unit_test(counting_needs_no_max_tokens),
    };
    return cmocka_run_group_tests(tests, open_assets, close_assets);
}
