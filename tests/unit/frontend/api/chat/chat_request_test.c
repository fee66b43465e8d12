/*
 * Fields of a chat request: ranges, defaults, and errors with their param.
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

#include "frontend/api/chat/chat_request.h"
#include "tests/support/tiny_assets.h"

#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]"

static struct model_assets assets;

static int open_assets(void **state)
{
    (void)state;
    tiny_assets_open(&assets, NULL);
    assets.sampling.temperature = 0.5f;
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
    return chat_request_parse(&(struct parse_context){.assets = &assets, .random_seed = 77}, json,
                              strlen(json), request, error);
}

static void unset_fields_take_checkpoint_then_api_defaults(void **state)
{
    (void)state;
    struct generation_request request;
    struct api_error error;
    assert_int_equal(parse("{" HELLO "}", &request, &error), RESULT_OK);
    assert_true(request.sampling.temperature == 0.5f); /* the checkpoint's */
    assert_true(request.sampling.top_p == 1.0f);
    assert_true(request.sampling.min_p == 0.0f);
    assert_true(request.sampling.repetition_penalty == 1.0f);
    assert_int_equal(request.sampling.top_k, 0);
    assert_int_equal(request.sampling.seed, 77);
    assert_int_equal(request.max_new_tokens, 0);
    assert_int_equal(request.stop_count, 0);
    assert_false(request.stream);
    generation_request_fini(&request);
}

static void every_field_is_read(void **state)
{
    (void)state;
    struct generation_request request;
    struct api_error error;
    assert_int_equal(
        parse(
            "{\"model\":\"tiny\",\"temperature\":0,\"top_p\":0.25,\"min_p\":0.1,\"top_k\":40,"
            "\"seed\":-3,\"presence_penalty\":-2,\"frequency_penalty\":1.5,"
            "\"repetition_penalty\":1.25,\"max_tokens\":5,\"max_completion_tokens\":7,"
            "\"stop\":[\"a\",\"bc\"],\"logit_bias\":{\"5\":-100,\"259\":3},\"stream\":true,"
            "\"stream_options\":{\"include_usage\":true},\"n\":1,\"tools\":[],\"user\":\"x\"," HELLO
            "}",
            &request, &error),
        RESULT_OK);
    assert_true(request.sampling.temperature == 0.0f);
    assert_true(request.sampling.top_p == 0.25f);
    assert_true(request.sampling.min_p == 0.1f);
    assert_int_equal(request.sampling.top_k, 40);
    assert_true(request.sampling.seed == (uint64_t)-3);
    assert_true(request.sampling.presence_penalty == -2.0f);
    assert_true(request.sampling.frequency_penalty == 1.5f);
    assert_true(request.sampling.repetition_penalty == 1.25f);
    assert_int_equal(request.max_new_tokens, 7);
    assert_int_equal(request.stop_count, 2);
    assert_string_equal(request.stops[1].bytes, "bc");
    assert_int_equal(request.logit_bias_count, 2);
    assert_int_equal(request.logit_bias[1].token, 259);
    assert_true(request.logit_bias[0].bias == -100.0f);
    assert_true(request.stream && request.include_usage);
    generation_request_fini(&request);
}

static const struct {
    const char *json;
    int status;
    const char *param;
} refusals[] = {
    {"", 400, ""},
    {"{", 400, ""},
    {"[]", 400, ""},
    {"{" HELLO "} x", 400, ""},
    {"{\"model\":3," HELLO "}", 400, "model"},
    {"{\"model\":\"other\"," HELLO "}", 404, "model"},
    {"{}", 400, "messages"},
    {"{\"messages\":[]}", 400, "messages"},
    {"{\"messages\":\"hi\"}", 400, "messages"},
    {"{\"messages\":[3]}", 400, "messages[0]"},
    {"{\"messages\":[{\"content\":\"x\"}]}", 400, "messages[0].role"},
    {"{\"messages\":[{\"role\":\"wizard\",\"content\":\"x\"}]}", 400, "messages[0].role"},
    {"{\"messages\":[{\"role\":\"user\"}]}", 400, "messages[0].content"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":4}]}", 400, "messages[0].content"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", 400,
     "messages[0].content[0]"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\\u0000b\"}]}", 400, ""},
    {"{\"temperature\":2.1," HELLO "}", 400, "temperature"},
    {"{\"temperature\":\"1\"," HELLO "}", 400, "temperature"},
    {"{\"temperature\":1e999," HELLO "}", 400, "temperature"},
    {"{\"top_p\":-0.1," HELLO "}", 400, "top_p"},
    {"{\"min_p\":1.1," HELLO "}", 400, "min_p"},
    {"{\"top_k\":1.5," HELLO "}", 400, "top_k"},
    {"{\"seed\":1e300," HELLO "}", 400, "seed"},
    {"{\"presence_penalty\":3," HELLO "}", 400, "presence_penalty"},
    {"{\"max_tokens\":0," HELLO "}", 400, "max_tokens"},
    {"{\"max_completion_tokens\":-4," HELLO "}", 400, "max_completion_tokens"},
    {"{\"stop\":\"\"," HELLO "}", 400, "stop"},
    {"{\"stop\":[1]," HELLO "}", 400, "stop"},
    {"{\"logit_bias\":{\"261\":1}," HELLO "}", 400, "logit_bias"},
    {"{\"logit_bias\":{\"-1\":1}," HELLO "}", 400, "logit_bias"},
    {"{\"logit_bias\":{\"1\":101}," HELLO "}", 400, "logit_bias"},
    {"{\"stream\":1," HELLO "}", 400, "stream"},
    {"{\"stream_options\":{}," HELLO "}", 400, "stream_options"},
    {"{\"n\":0," HELLO "}", 400, "n"},
    {"{\"n\":129," HELLO "}", 400, "n"},
    {"{\"logprobs\":3," HELLO "}", 400, "logprobs"},
    {"{\"top_logprobs\":3," HELLO "}", 400, "top_logprobs"},
    {"{\"logprobs\":true,\"top_logprobs\":21," HELLO "}", 400, "top_logprobs"},
    {"{\"tools\":[{}]," HELLO "}", 400, "tools[0].type"},
    {"{\"typical_p\":2," HELLO "}", 400, "typical_p"},
    {"{\"top_n_sigma\":-1," HELLO "}", 400, "top_n_sigma"},
    {"{\"presence_context_size\":-1," HELLO "}", 400, "presence_context_size"},
    {"{\"max_tokens\":4,\"min_tokens\":5," HELLO "}", 400, "min_tokens"},
    {"{\"ignore_eos\":1," HELLO "}", 400, "ignore_eos"},
    {"{\"return_progress\":true," HELLO "}", 400, "return_progress"},
    {"{\"reasoning_effort\":\"huge\"," HELLO "}", 400, "reasoning_effort"},
    {"{\"thinking_budget\":-1," HELLO "}", 400, "thinking_budget"},
    {"{\"thinking_end_token\":\"\"," HELLO "}", 400, "thinking_end_token"},
    {"{\"enable_thinking\":\"yes\"," HELLO "}", 400, "enable_thinking"},
    {"{\"chat_template_kwargs\":[]," HELLO "}", 400, "chat_template_kwargs"},
    {"{\"continue_final_message\":true,\"add_generation_prompt\":true," HELLO "}", 400,
     "continue_final_message"},
    {"{\"grammar\":7," HELLO "}", 400, "grammar"},
    {"{\"n_predict\":5," HELLO "}", 400, "n_predict"},
    {"{\"repeat_penalty\":11," HELLO "}", 400, "repeat_penalty"},
    {"{\"skip_special_tokens\":false," HELLO "}", 400, "skip_special_tokens"},
    {"{\"id_slot\":\"x\"," HELLO "}", 400, "id_slot"},
    {"{\"samplers\":[\"top_k\"]," HELLO "}", 400, "samplers"},
    {"{\"reasoning\":{\"effort\":\"low\"}," HELLO "}", 400, "reasoning"},
    {"{\"verbosity\":\"loud\"," HELLO "}", 400, "verbosity"},
    {"{\"modalities\":[\"text\",\"audio\"]," HELLO "}", 400, "modalities"},
    {"{\"response_format\":{\"type\":\"yaml\"}," HELLO "}", 400, "response_format"},
};

static void refusals_name_their_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct generation_request request;
        struct api_error error = {0};
        enum result result = parse(refusals[i].json, &request, &error);
        if (result == RESULT_OK || error.status != refusals[i].status ||
            strcmp(error.param, refusals[i].param) != 0)
            fail_msg("%s: result %s, status %d, param '%s'", refusals[i].json, result_name(result),
                     error.status, error.param);
        assert_true(error.message[0] != '\0');
        assert_null(request.body);
    }
}

static void thinking_and_template_fields_are_read(void **state)
{
    (void)state;
    struct generation_request request;
    struct api_error error;
    assert_int_equal(parse("{\"reasoning_effort\":\"none\",\"thinking_budget\":7,"
                           "\"thinking_start_token\":\"<a>\",\"chat_template_kwargs\":{\"x\":1},"
                           "\"continue_final_message\":true,\"n\":3,\"logprobs\":true,"
                           "\"top_logprobs\":20,\"typical_p\":0.5,\"top_n_sigma\":1.5,"
                           "\"frequency_context_size\":9,\"min_tokens\":2,\"ignore_eos\":true,"
                           "\"user\":\"u\",\"metadata\":{\"a\":\"b\"},\"store\":false,"
                           "\"n_predict\":-1,\"repeat_penalty\":1,\"skip_special_tokens\":true,"
                           "\"samplers\":[]," HELLO "}",
                           &request, &error),
                     RESULT_OK);
    assert_int_equal(request.thinking, THINKING_OFF);
    assert_int_equal(request.thinking_budget, 7);
    assert_string_equal(request.thinking_start, "<a>");
    assert_null(request.thinking_end);
    char *text = cJSON_PrintUnformatted(request.template_variables);
    assert_string_equal(text, "{\"x\":1,\"reasoning_effort\":\"none\"}");
    free(text);
    assert_true(request.continue_final_message);
    assert_int_equal(request.choices, 3);
    assert_true(request.logprobs && request.top_logprobs == 20);
    assert_true(request.sampling.typical_p == 0.5f && request.sampling.top_n_sigma == 1.5f);
    assert_int_equal(request.sampling.frequency_context, 9);
    assert_true(request.min_tokens == 2 && request.ignore_end);
    generation_request_fini(&request);
    assert_int_equal(
        parse("{\"chat_template_kwargs\":{\"enable_thinking\":true}," HELLO "}", &request, &error),
        RESULT_OK);
    assert_int_equal(request.thinking, THINKING_ON);
    assert_true(request.thinking_budget == THINKING_BUDGET_NONE);
    generation_request_fini(&request);
}

/* The assistant's reasoning reaches templates under the names that they read. */
static void reasoning_is_passed_to_the_template(void **state)
{
    (void)state;
    struct generation_request request;
    struct api_error error;
    assert_int_equal(
        parse("{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"reasoning\":\"r\"},"
              "{\"role\":\"assistant\",\"content\":null,\"reasoning\":\"r\",\"tool_calls\":[{"
              "\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\","
              "\"arguments\":\"{}\"}}]}]}",
              &request, &error),
        RESULT_OK);
    const cJSON *plain = request.messages->child;
    const cJSON *calling = plain->next;
    assert_string_equal(cJSON_GetObjectItem(plain, "reasoning_content")->valuestring, "r");
    assert_null(cJSON_GetObjectItem(plain, "thinking"));
    assert_string_equal(cJSON_GetObjectItem(calling, "reasoning_content")->valuestring, "r");
    assert_string_equal(cJSON_GetObjectItem(calling, "thinking")->valuestring, "r");
    generation_request_fini(&request);
}

static void deep_bodies_are_refused(void **state)
{
    (void)state;
    struct generation_request request;
    struct api_error error;
    char json[2 * LIMIT_BODY_DEPTH + 200];
    for (int more = 0; more < 2; more++) {
        /* The body is one level, metadata the rest. */
        int levels = (int)LIMIT_BODY_DEPTH - 1 + more;
        int at = snprintf(json, sizeof json, "{" HELLO ",\"metadata\":");
        memset(json + at, '[', (size_t)levels);
        memset(json + at + levels, ']', (size_t)levels);
        strcpy(json + at + 2 * levels, "}");
        assert_int_equal(parse(json, &request, &error), more ? RESULT_INVALID : RESULT_OK);
        generation_request_fini(&request);
    }
}

static void messages_become_what_templates_expect(void **state)
{
    (void)state;
    struct generation_request request;
    struct api_error error;
    assert_int_equal(
        parse("{\"messages\":[{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":"
              "\"a\"},"
              "{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":null,"
              "\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\","
              "\"arguments\":\"{\\\"x\\\":1}\"}}]},{\"role\":\"tool\",\"content\":\"r\"}]}",
              &request, &error),
        RESULT_OK);
    char *text = cJSON_PrintUnformatted(request.messages);
    assert_string_equal(text,
                        "[{\"role\":\"system\",\"content\":\"a\\nb\"},{\"role\":\"assistant\","
                        "\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\","
                        "\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}]},"
                        "{\"role\":\"tool\",\"content\":\"r\"}]");
    free(text);
    generation_request_fini(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unset_fields_take_checkpoint_then_api_defaults),
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(refusals_name_their_field),
        cmocka_unit_test(thinking_and_template_fields_are_read),
        cmocka_unit_test(reasoning_is_passed_to_the_template),
        cmocka_unit_test(deep_bodies_are_refused),
        cmocka_unit_test(messages_become_what_templates_expect),
    };
    return cmocka_run_group_tests(tests, open_assets, close_assets);
}
