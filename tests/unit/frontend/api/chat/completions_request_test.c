/*
 * Fields of a completions request: the four shapes of a prompt, counts, and combinations that are
 * refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <string.h>

#include "frontend/api/chat/completions_request.h"
#include "tests/support/tiny_assets.h"

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
    return completions_request_parse(&(struct parse_context){.assets = &assets, .random_seed = 7},
                                     json, strlen(json), request, error);
}

static void prompts_become_a_list(void **state)
{
    (void)state;
    static const struct {
        const char *prompt;
        const char *list;
    } cases[] = {
        {"\"a\"", "[\"a\"]"},
        {"[\"a\",\"b\"]", "[\"a\",\"b\"]"},
        {"[1,2]", "[[1,2]]"},
        {"[[1,2],[3]]", "[[1,2],[3]]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char body[64] = "{\"prompt\":";
        struct generation_request request;
        struct api_error error;
        strcat(strcat(body, cases[i].prompt), "}");
        assert_int_equal(parse(body, &request, &error), RESULT_OK);
        char *text = cJSON_PrintUnformatted(request.prompts);
        assert_string_equal(text, cases[i].list);
        cJSON_free(text);
        assert_int_equal(request.max_new_tokens, 16);
        assert_int_equal(request.choices, 1);
        assert_false(request.logprobs || request.echo || request.stream);
        generation_request_fini(&request);
    }
}

static void fields_are_read(void **state)
{
    (void)state;
    struct generation_request request;
    struct api_error error;
    assert_int_equal(
        parse("{\"prompt\":\"a\",\"max_tokens\":3,\"n\":2,\"best_of\":2,\"logprobs\":0,"
              "\"stream\":true,\"stream_options\":{\"include_usage\":true},\"seed\":5,"
              "\"stop\":[\"x\",\"y\"],\"min_tokens\":2,\"suffix\":\"\"}",
              &request, &error),
        RESULT_OK);
    assert_int_equal(request.max_new_tokens, 3);
    assert_int_equal(request.choices, 2);
    assert_int_equal(request.min_tokens, 2);
    assert_int_equal(request.stop_count, 2);
    assert_int_equal(request.sampling.seed, 5);
    assert_true(request.logprobs && request.stream && request.include_usage);
    assert_int_equal(request.top_logprobs, 0);
    generation_request_fini(&request);
}

static void unsupported_fields_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *param;
    } cases[] = {
        {"{}", "prompt"},
        {"{\"prompt\":{}}", "prompt"},
        {"{\"prompt\":[]}", "prompt"},
        {"{\"prompt\":[\"a\",[1]]}", "prompt"},
        {"{\"prompt\":[[1],\"a\"]}", "prompt"},
        {"{\"prompt\":\"a\",\"suffix\":\"b\"}", "suffix"},
        {"{\"prompt\":\"a\",\"prompt_logprobs\":-1}", "prompt_logprobs"},
        {"{\"prompt\":\"a\",\"prompt_logprobs\":21}", "prompt_logprobs"},
        {"{\"prompt\":\"a\",\"prompt_logprobs\":1,\"stream\":true}", "prompt_logprobs"},
        {"{\"prompt\":\"a\",\"best_of\":3}", "best_of"},
        {"{\"prompt\":\"a\",\"logprobs\":21}", "logprobs"},
        {"{\"prompt\":\"a\",\"logprobs\":true}", "logprobs"},
        {"{\"prompt\":\"a\",\"n\":0}", "n"},
        {"{\"prompt\":\"a\",\"max_tokens\":-1}", "max_tokens"},
        {"{\"prompt\":\"a\",\"min_tokens\":17}", "min_tokens"},
        {"{\"prompt\":\"a\",\"grammar\":7}", "grammar"},
        {"{\"prompt\":\"a\",\"model\":\"other\"}", "model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct generation_request request;
        struct api_error error;
        assert_int_not_equal(parse(cases[i].body, &request, &error), RESULT_OK);
        assert_string_equal(error.param, cases[i].param);
        assert_null(request.body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_become_a_list),
        cmocka_unit_test(fields_are_read),
        cmocka_unit_test(unsupported_fields_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, open_assets, close_assets);
}
