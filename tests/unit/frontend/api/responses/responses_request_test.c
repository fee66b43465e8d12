/*
 * A Responses request: messages from items and stored conversations, settings, what the reply shows
 * of them, and errors with their param.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "frontend/api/responses/response_store.h"
#include "frontend/api/responses/responses_request.h"
#include "tests/support/tiny_assets.h"

static struct model_assets assets;
static struct response_store *store;

static int open_assets(void **state)
{
    (void)state;
    tiny_assets_open(&assets, NULL);
    assets.sampling.top_p = 0.9f;
    store = response_store_create(1 << 20, 100);
    return 0;
}

static int close_assets(void **state)
{
    (void)state;
    response_store_destroy(store);
    tiny_assets_close(&assets);
    return 0;
}

static enum result parse_as(struct client_key client_key, const char *json,
                            struct generation_request *request, struct api_error *error)
{
    return responses_request_parse(&(struct parse_context){.assets = &assets,
                                                           .random_seed = 77,
                                                           .format_context = store,
                                                           .client_key = client_key},
                                   json, strlen(json), request, error);
}

static enum result parse(const char *json, struct generation_request *request,
                         struct api_error *error)
{
    return parse_as((struct client_key){{0}}, json, request, error);
}

/* The messages of a valid body. */
static void assert_messages(const char *json, const char *messages)
{
    struct generation_request request;
    struct api_error error;
    if (parse(json, &request, &error) != RESULT_OK)
        fail_msg("%s: %s", error.param, error.message);
    char *text = cJSON_PrintUnformatted(request.messages);
    assert_string_equal(text, messages);
    cJSON_free(text);
    generation_request_fini(&request);
}

static void items_become_messages(void **state)
{
    (void)state;
    assert_messages("{\"input\":\"hi\"}", "[{\"role\":\"user\",\"content\":\"hi\"}]");
    assert_messages("{\"input\":\"hi\",\"instructions\":\"be brief\"}",
                    "[{\"role\":\"system\",\"content\":\"be brief\"},"
                    "{\"role\":\"user\",\"content\":\"hi\"}]");
    assert_messages("{\"input\":[{\"role\":\"developer\",\"content\":\"d\"},{\"type\":\"message\","
                    "\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},"
                    "{\"type\":\"input_text\",\"text\":\"b\"}]}]}",
                    "[{\"role\":\"system\",\"content\":\"d\"},"
                    "{\"role\":\"user\",\"content\":\"a\\nb\"}]");
}

static void an_assistants_items_become_one_turn(void **state)
{
    (void)state;
#define THOUGHT                                                                                    \
    "{\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":"   \
    "\"hm\"}]}"
#define SAID                                                                                       \
    "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","         \
    "\"text\":\"ok\","                                                                             \
    "\"annotations\":[]}]}"
#define CALL(n)                                                                                    \
    "{\"type\":\"function_call\",\"call_id\":\"c" n                                                \
    "\",\"name\":\"f\",\"arguments\":\"{\\\"x\\\":" n "}\"}"
#define CALLED(n)                                                                                  \
    "{\"id\":\"c" n                                                                                \
    "\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":" n "}}}"
#define OUTPUT "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"7\"}"
    assert_messages("{\"input\":[" THOUGHT "," SAID "," CALL("1") "," CALL("2") "," OUTPUT "]}",
                    "[{\"role\":\"assistant\",\"reasoning_content\":\"hm\",\"content\":\"ok\","
                    "\"tool_calls\":[" CALLED("1") "," CALLED(
                        "2") "]},"
                             "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"7\"}]");
    /* text behind a call is another message; reasoning that led nowhere is dropped */
    assert_messages("{\"input\":[" CALL("1") "," SAID "," THOUGHT
                                             ",{\"role\":\"user\",\"content\":\"x\"}]}",
                    "[{\"role\":\"assistant\",\"tool_calls\":[" CALLED(
                        "1") "]},"
                             "{\"role\":\"assistant\",\"content\":\"ok\"},"
                             "{\"role\":\"user\",\"content\":\"x\"}]");
    /* a summary where there is no content; two items of reasoning; a call that was cut */
    assert_messages(
        "{\"input\":[{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\","
        "\"text\":\"s\"}]}," THOUGHT "," SAID ",{\"type\":\"function_call\",\"call_id\":"
        "\"c\",\"name\":\"f\",\"arguments\":\"{\\\"\",\"status\":\"incomplete\"}]}",
        "[{\"role\":\"assistant\",\"reasoning_content\":\"s\\nhm\",\"content\":\"ok\"}]");
}

/* --- conversations --------------------------------------------------------------------------- */

/* A finished response of this body. Output: reasoning and a message. */
static void answer(const char *json, const char *id)
{
    struct generation_request request;
    struct api_error error;
    assert_int_equal(parse(json, &request, &error), RESULT_OK);
    struct response_outcome outcome = {.status = RESPONSE_COMPLETED};
    static const char *const items[] = {THOUGHT, SAID};
    for (size_t i = 0; i < 2; i++) {
        response_items_begin(&outcome.output);
        text_buffer_append_text(&outcome.output.text, items[i]);
        response_items_end(&outcome.output, i == 0 ? "rs_" : "msg_");
    }
    response_record_publish(request.own.state, id, 1);
    response_record_finish(request.own.state, &outcome);
    generation_request_fini(&request);
}

static void a_continued_conversation_drops_earlier_instructions(void **state)
{
    (void)state;
    answer("{\"input\":\"one\",\"instructions\":\"old\"}", "resp_01");
    answer("{\"input\":\"two\",\"previous_response_id\":\"resp_01\"}", "resp_02");
#define ANSWERED "{\"role\":\"assistant\",\"reasoning_content\":\"hm\",\"content\":\"ok\"}"
    assert_messages("{\"input\":\"three\",\"previous_response_id\":\"resp_02\",\"instructions\":"
                    "\"new\"}",
                    "[{\"role\":\"system\",\"content\":\"new\"},{\"role\":\"user\",\"content\":"
                    "\"one\"}," ANSWERED ",{\"role\":\"user\",\"content\":\"two\"}," ANSWERED
                    ",{\"role\":\"user\",\"content\":\"three\"}]");
    /* items that are referred to, of both sides */
    assert_messages(
        "{\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_01i0000\"},"
        "{\"id\":\"msg_02o0001\"},{\"role\":\"user\",\"content\":\"x\"}]}",
        "[{\"role\":\"user\",\"content\":\"one\"},{\"role\":\"assistant\",\"content\":\"ok\"},"
        "{\"role\":\"user\",\"content\":\"x\"}]");
}

static void responses_of_other_clients_are_not_found(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"input\":\"x\",\"previous_response_id\":\"resp_01\"}",
        "{\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_01i0000\"}]}"};
    for (size_t i = 0; i < 2; i++) {
        struct generation_request request;
        struct api_error error;
        assert_int_equal(parse(bodies[i], &request, &error), RESULT_OK);
        generation_request_fini(&request);
        assert_int_equal(parse_as((struct client_key){{1}}, bodies[i], &request, &error),
                         RESULT_NOT_FOUND);
        assert_int_equal(error.status, i == 0 ? 400 : 404);
        assert_string_equal(error.param, i == 0 ? "previous_response_id" : "input[0]");
    }
}

static void an_unfinished_answer_cannot_be_continued(void **state)
{
    (void)state;
    struct generation_request first, request;
    struct api_error error;
    assert_int_equal(parse("{\"input\":\"x\"}", &first, &error), RESULT_OK);
    response_record_publish(first.own.state, "resp_03", 1);
    assert_int_equal(
        parse("{\"input\":\"x\",\"previous_response_id\":\"resp_03\"}", &request, &error),
        RESULT_INVALID);
    assert_string_equal(error.param, "previous_response_id");
    assert_int_equal(parse("{\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_03o0000\"}]}",
                           &request, &error),
                     RESULT_NOT_FOUND);
    response_record_withdraw(first.own.state);
    generation_request_fini(&first);
}

/* --- settings -------------------------------------------------------------------------------- */

static void settings_are_read(void **state)
{
    (void)state;
    struct generation_request request;
    struct api_error error;
    assert_int_equal(
        parse("{\"input\":\"x\",\"model\":\"tiny\",\"stream\":true,\"background\":true,"
              "\"max_output_tokens\":9,\"temperature\":0.5,\"top_k\":3,\"seed\":5,\"stop\":\"z\","
              "\"top_logprobs\":2,\"include\":[\"message.output_text.logprobs\","
              "\"reasoning.encrypted_content\"],\"reasoning\":{\"effort\":\"low\",\"summary\":"
              "\"auto\"},\"text\":{\"format\":{\"type\":\"text\"}},\"truncation\":\"disabled\","
              "\"stream_options\":{\"include_obfuscation\":false},\"conversation\":null}",
              &request, &error),
        RESULT_OK);
    assert_true(request.stream && request.background && request.logprobs);
    assert_int_equal(request.max_new_tokens, 9);
    assert_int_equal(request.top_logprobs, 2);
    assert_int_equal(request.sampling.top_k, 3);
    assert_int_equal(request.sampling.seed, 5);
    assert_int_equal(request.stop_count, 1);
    assert_int_equal(request.thinking, THINKING_ON);
    assert_int_equal(request.thinking_budget, THINKING_BUDGET_NONE);
    assert_string_equal(
        cJSON_GetObjectItem(request.template_variables, "reasoning_effort")->valuestring, "low");
    generation_request_fini(&request);
    assert_int_equal(
        parse("{\"input\":\"x\",\"reasoning\":{\"effort\":\"none\"}}", &request, &error),
        RESULT_OK);
    assert_int_equal(request.thinking, THINKING_OFF);
    assert_false(request.stream || request.background || request.logprobs);
    generation_request_fini(&request);
    /* the chat API's fields about thinking, too */
    assert_int_equal(
        parse("{\"input\":\"x\",\"reasoning\":{\"effort\":\"high\"},\"enable_thinking\":false,"
              "\"thinking_budget\":7,\"thinking_end_token\":\"</t>\","
              "\"chat_template_kwargs\":{\"a\":\"b\"}}",
              &request, &error),
        RESULT_OK);
    assert_int_equal(request.thinking, THINKING_OFF);
    assert_int_equal(request.thinking_budget, 7);
    assert_string_equal(request.thinking_end, "</t>");
    assert_string_equal(cJSON_GetObjectItem(request.template_variables, "a")->valuestring, "b");
    assert_string_equal(
        cJSON_GetObjectItem(request.template_variables, "reasoning_effort")->valuestring, "high");
    generation_request_fini(&request);
}

static void tools_become_those_of_chat(void **state)
{
    (void)state;
    struct generation_request request;
    struct api_error error;
    assert_int_equal(
        parse("{\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"strict\":true,"
              "\"description\":\"d\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}],"
              "\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"},"
              "\"parallel_tool_calls\":false,\"metadata\":{\"a\":\"b\"},\"user\":\"u\\\"\"}",
              &request, &error),
        RESULT_OK);
    char *text = cJSON_PrintUnformatted(request.tools);
    assert_string_equal(text,
                        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":"
                        "\"d\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]");
    cJSON_free(text);
    assert_int_equal(request.tool_choice, TOOL_CHOICE_NAMED);
    assert_string_equal(request.tool_name, "f");
    assert_true(request.single_tool_call);
    /* what the reply shows of it */
    struct text_buffer out = {0};
    response_record_publish(request.own.state, "resp_04", 1);
    response_record_write(request.own.state, &out);
    cJSON *json = cJSON_ParseWithOpts(out.bytes, NULL, true);
    assert_non_null(json);
    text = cJSON_PrintUnformatted(cJSON_GetObjectItem(json, "tools"));
    assert_string_equal(text,
                        "[{\"type\":\"function\",\"name\":\"f\",\"description\":\"d\","
                        "\"parameters\":{\"type\":\"object\",\"properties\":{}},\"strict\":true}]");
    cJSON_free(text);
    assert_non_null(strstr(out.bytes, "\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}"));
    assert_non_null(strstr(out.bytes, "\"parallel_tool_calls\":false"));
    assert_non_null(strstr(out.bytes, "\"metadata\":{\"a\":\"b\"}"));
    assert_non_null(strstr(out.bytes, "\"user\":\"u\\\"\""));
    assert_non_null(strstr(out.bytes, "\"temperature\":1,\"top_p\":0.9,"));
    cJSON_Delete(json);
    text_buffer_fini(&out);
    response_record_withdraw(request.own.state);
    generation_request_fini(&request);
}

static void a_request_with_store_false_leaves_no_record(void **state)
{
    (void)state;
    struct generation_request request;
    struct api_error error;
    uint64_t before = response_store_bytes(store);
    assert_int_equal(parse("{\"input\":\"x\",\"store\":false,\"previous_response_id\":\"resp_01\"}",
                           &request, &error),
                     RESULT_OK);
    assert_int_equal(response_record_input(request.own.state)->count, 0);
    assert_null(response_record_previous(request.own.state));
    assert_int_equal(response_store_bytes(store), before);
    generation_request_fini(&request);
    struct parse_context context = {.assets = &assets, .format_context = store};
    static const char body[] = "{\"input\":\"x\"}";
    assert_int_equal(responses_count_parse(&context, body, sizeof body - 1, &request, &error),
                     RESULT_OK);
    assert_null(request.own.state);
    assert_int_equal(response_store_bytes(store), before);
    generation_request_fini(&request);
}

static const struct refusal {
    const char *body;
    const char *param;
} refusals[] = {
    {"{}", "input"},
    {"{\"input\":[]}", "input"},
    {"{\"input\":7}", "input"},
    {"{\"input\":[7]}", "input[0]"},
    {"{\"input\":[{}]}", "input[0]"},
    {"{\"input\":[{\"type\":7}]}", "input[0]"},
    {"{\"input\":[{\"type\":\"computer_call\"}]}", "input[0].type"},
    {"{\"input\":[{\"role\":\"tool\",\"content\":\"x\"}]}", "input[0].role"},
    {"{\"input\":[{\"role\":\"user\"}]}", "input[0].content"},
    {"{\"input\":[{\"role\":\"user\",\"content\":[]}]}", "input[0].content"},
    {"{\"input\":[{\"role\":\"user\",\"content\":[7]}]}", "input[0].content[0]"},
    {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\"}]}]}",
     "input[0].content[0]"},
    {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\",\"image_url\":"
     "\"x\"}]}]}",
     "input[0].content[0]"},
    {"{\"input\":[{\"type\":\"function_call\",\"name\":\"f\",\"arguments\":\"{}\"}]}",
     "input[0].call_id"},
    {"{\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"c\"}]}", "input[0].output"},
    {"{\"input\":[{\"type\":\"reasoning\",\"summary\":7}]}", "input[0]"},
    {"{\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_77i0000\"}]}", "input[0]"},
    {"{\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_01i0009\"}]}", "input[0]"},
    {"{\"input\":\"x\",\"instructions\":[]}", "instructions"},
    {"{\"input\":\"x\",\"previous_response_id\":\"resp_77\"}", "previous_response_id"},
    {"{\"input\":\"x\",\"previous_response_id\":7}", "previous_response_id"},
    {"{\"input\":\"x\",\"messages\":[{}]}", "messages"},
    {"{\"input\":\"x\",\"guided_json\":7}", "guided_json"},
    {"{\"input\":\"x\",\"n_predict\":5}", "n_predict"},
    {"{\"input\":\"x\",\"max_tokens\":5}", "max_tokens"},
    {"{\"input\":\"x\",\"min_tokens\":-1}", "min_tokens"},
    {"{\"input\":\"x\",\"conversation\":\"c\"}", "conversation"},
    {"{\"input\":\"x\",\"prompt\":{\"id\":\"p\"}}", "prompt"},
    {"{\"input\":\"x\",\"context_management\":[]}", "context_management"},
    {"{\"input\":\"x\",\"truncation\":\"none\"}", "truncation"},
    {"{\"input\":\"x\",\"service_tier\":\"flex\"}", "service_tier"},
    {"{\"input\":\"x\",\"text\":{\"format\":{\"type\":\"yaml\"}}}", "text.format"},
    {"{\"input\":\"x\",\"text\":{\"format\":\"text\"}}", "text.format"},
    {"{\"input\":\"x\",\"text\":{\"verbosity\":\"loud\"}}", "text.verbosity"},
    {"{\"input\":\"x\",\"text\":7}", "text"},
    {"{\"input\":\"x\",\"reasoning\":{\"effort\":\"huge\"}}", "reasoning.effort"},
    {"{\"input\":\"x\",\"reasoning\":{\"summary\":\"short\"}}", "reasoning.summary"},
    {"{\"input\":\"x\",\"include\":[\"everything\"]}", "include"},
    {"{\"input\":\"x\",\"include\":\"x\"}", "include"},
    {"{\"input\":\"x\",\"top_logprobs\":21}", "top_logprobs"},
    {"{\"input\":\"x\",\"max_output_tokens\":0}", "max_output_tokens"},
    {"{\"input\":\"x\",\"max_tool_calls\":0}", "max_tool_calls"},
    {"{\"input\":\"x\",\"store\":1}", "store"},
    {"{\"input\":\"x\",\"background\":true,\"store\":false}", "background"},
    {"{\"input\":\"x\",\"stream_options\":{}}", "stream_options"},
    {"{\"input\":\"x\",\"stream\":true,\"stream_options\":{\"include_obfuscation\":true}}",
     "stream_options.include_obfuscation"},
    {"{\"input\":\"x\",\"metadata\":{\"a\":1}}", "metadata"},
    {"{\"input\":\"x\",\"user\":1}", "user"},
    {"{\"input\":\"x\",\"temperature\":3}", "temperature"},
    {"{\"input\":\"x\",\"tools\":{}}", "tools"},
    {"{\"input\":\"x\",\"tools\":[7]}", "tools[0]"},
    {"{\"input\":\"x\",\"tools\":[{\"type\":\"telepathy\"}]}", "tools[0].type"},
    {"{\"input\":\"x\",\"tools\":[{\"type\":\"function\"}]}", "tools[0].name"},
    {"{\"input\":\"x\",\"tool_choice\":\"required\"}", "tool_choice"},
    {"{\"input\":\"x\",\"tool_choice\":{\"type\":\"web_search\"}}", "tool_choice"},
    {"{\"input\":\"x\",\"parallel_tool_calls\":1}", "parallel_tool_calls"},
    {"{\"input\":\"x\",\"model\":\"other\"}", "model"},
    {"{\"input\":\"\xff\"}", ""},
};

static void refusals_name_the_parameter(void **state)
{
    (void)state;
    uint64_t before = response_store_bytes(store);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct generation_request request;
        struct api_error error;
        if (parse(refusals[i].body, &request, &error) == RESULT_OK)
            fail_msg("accepted: %s", refusals[i].body);
        if (strcmp(error.param, refusals[i].param) != 0 || error.status < 400 || error.status > 404)
            fail_msg("%s: %d, param '%s'", refusals[i].body, error.status, error.param);
        assert_null(request.body);
    }
    assert_int_equal(response_store_bytes(store), before);
}

static void a_full_store_replies_429(void **state)
{
    (void)state;
    struct response_store *usual = store;
    struct generation_request first, request;
    struct api_error error;
    store = response_store_create(3000, 10);
    assert_int_equal(parse("{\"input\":\"x\"}", &first, &error), RESULT_OK);
    assert_int_equal(parse("{\"input\":\"x\"}", &request, &error), RESULT_FULL);
    assert_int_equal(error.status, 429);
    assert_int_equal(error.retry_after_s, 1);
    assert_int_equal(parse("{\"input\":\"x\",\"store\":false}", &request, &error), RESULT_OK);
    generation_request_fini(&request);
    generation_request_fini(&first);
    assert_int_equal(parse("{\"input\":\"x\"}", &request, &error), RESULT_OK);
    generation_request_fini(&request);
    response_store_destroy(store);
    store = usual;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_become_messages),
        cmocka_unit_test(an_assistants_items_become_one_turn),
        cmocka_unit_test(a_continued_conversation_drops_earlier_instructions),
        cmocka_unit_test(responses_of_other_clients_are_not_found),
        cmocka_unit_test(an_unfinished_answer_cannot_be_continued),
        cmocka_unit_test(settings_are_read),
        cmocka_unit_test(tools_become_those_of_chat),
        cmocka_unit_test(a_request_with_store_false_leaves_no_record),
        cmocka_unit_test(refusals_name_the_parameter),
        cmocka_unit_test(a_full_store_replies_429),
    };
    return cmocka_run_group_tests(tests, open_assets, close_assets);
}
