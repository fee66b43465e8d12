/*
 * System text and messages as turns of a chat, and errors with their place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <string.h>

#include "frontend/api/messages/messages_turns.h"
#include "frontend/api/messages/thinking_signature.h"

#define USER(content)      "{\"role\":\"user\",\"content\":" content "}"
#define ASSISTANT(content) "{\"role\":\"assistant\",\"content\":" content "}"

static struct request_images no_images; /* request_images_test.c has those */

static void assert_turns(const char *body_json, const char *turns)
{
    struct api_error error;
    cJSON *body = cJSON_ParseWithOpts(body_json, NULL, true);
    assert_non_null(body);
    enum result result = messages_turns_make(body, "tiny", &no_images, &error);
    if (result != RESULT_OK)
        print_error("%s: %s\n", error.param, error.message);
    assert_int_equal(result, RESULT_OK);
    char *made = cJSON_PrintUnformatted(cJSON_GetObjectItem(body, "messages"));
    assert_string_equal(made, turns);
    cJSON_free(made);
    cJSON_Delete(body);
}

static void texts_become_turns(void **state)
{
    (void)state;
    assert_turns("{\"system\":\"Be kind.\",\"messages\":[" USER("\"Hi\"") "]}",
                 "[{\"role\":\"system\",\"content\":\"Be kind.\"}," USER("\"Hi\"") "]");
    assert_turns(
        "{\"system\":[{\"type\":\"text\",\"text\":\"A\",\"cache_control\":{\"type\":"
        "\"ephemeral\"}},{\"type\":\"text\",\"text\":\"B\"}],\"messages\":[" USER(
            "[{\"type\":\"text\",\"text\":\"1\"},{\"type\":\"text\",\"text\":\"2\"}]") ",{"
                                                                                       "\"role\":"
                                                                                       "\"user\","
                                                                                       "\"content\""
                                                                                       ":\"3\"}"
                                                                                       "," ASSISTANT(
                                                                                           "[]") ","
                                                                                                 "{"
                                                                                                 "\"role\":\"system\","
                                                                                                 "\"content\":\"C\"}," USER(
                                                                                                     "\"4\"") "]}",
        "[{\"role\":\"system\",\"content\":\"A\\nB\"}," USER("\"1\\n2\\n3\"") "," ASSISTANT(
            "\"\"") ",{\"role\":\"system\",\"content\":\"C\"}," USER("\"4\"") "]");
    assert_turns("{\"system\":null,\"messages\":[" USER("\"Hi\"") "]}", "[" USER("\"Hi\"") "]");
}

static void billing_lines_are_removed(void **state)
{
    (void)state;
#define BILLING "x-anthropic-billing-header: cc_version=2.1; cch=1f;"
    static const char hi[] = "[" USER("\"Hi\"") "]";
    assert_turns("{\"system\":\"" BILLING "\",\"messages\":[" USER("\"Hi\"") "]}", hi);
    assert_turns("{\"system\":[{\"type\":\"text\",\"text\":\"" BILLING
                 "\"}],\"messages\":[" USER("\"Hi\"") "]}",
                 hi);
    assert_turns("{\"system\":[{\"type\":\"text\",\"text\":\"" BILLING "\\nA\\n" BILLING
                 "\\nsays " BILLING "\"}],\"messages\":[" USER("\"" BILLING "\"") "]}",
                 "[{\"role\":\"system\",\"content\":\"A\\nsays " BILLING
                 "\"}," USER("\"" BILLING "\"") "]");
}

static void calls_and_results_keep_their_order_and_ids(void **state)
{
    (void)state;
    assert_turns("{\"messages\":[" USER("\"Go\"") "," ASSISTANT(
                     "[{\"type\":\"text\",\"text\":\"Two.\"},{\"type\":\"tool_use\",\"id\":\"toolu_"
                     "a\",\"name\":"
                     "\"f\",\"input\":{\"x\":1}},{\"type\":\"tool_use\",\"id\":\"b\",\"name\":"
                     "\"g\",\"input\":{}}"
                     "]") "," USER("[{\"type\":\"tool_result\",\"tool_use_id\":\"b\",\"content\":[{"
                                   "\"type\":"
                                   "\"text\",\"text\":\"p\"},{\"type\":\"text\",\"text\":\"q\"}]},{"
                                   "\"type\":"
                                   "\"tool_result\",\"tool_use_id\":\"toolu_a\",\"is_error\":true,"
                                   "\"content\":"
                                   "\"no\"},{\"type\":\"tool_result\",\"tool_use_id\":\"c\"},{"
                                   "\"type\":\"text\","
                                   "\"text\":\"Well?\"}]") "," ASSISTANT("[{\"type\":\"tool_use\","
                                                                         "\"id\":\"d\","
                                                                         "\"name\":\"f\",\"input\":"
                                                                         "{}}]") "]}",
                 "[" USER("\"Go\"") ",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\","
                                    "\"type\":\"function\","
                                    "\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}},{"
                                    "\"id\":\"b\","
                                    "\"type\":\"function\",\"function\":{\"name\":\"g\","
                                    "\"arguments\":{}}}],"
                                    "\"content\":\"Two.\"},{\"role\":\"tool\",\"tool_call_id\":"
                                    "\"b\",\"name\":"
                                    "\"g\",\"content\":\"p\\nq\"},{\"role\":\"tool\",\"tool_call_"
                                    "id\":\"a\","
                                    "\"name\":\"f\",\"content\":\"Error: no\"},{\"role\":\"tool\","
                                    "\"tool_call_id\":\"c\",\"content\":\"\"}," USER(
                                        "\"Well?\"") ",{\"role\":\"assistant\",\"tool_calls\":[{"
                                                     "\"id\":\"d\",\"type\":\"function\","
                                                     "\"function\":{\"name\":\"f\",\"arguments\":{}"
                                                     "}}],\"content\":null}]");
}

static void only_this_models_thinking_is_kept(void **state)
{
    (void)state;
    char own[THINKING_SIGNATURE_BYTES];
    char other[THINKING_SIGNATURE_BYTES];
    struct text_buffer body = {0};
    struct api_error error;
    thinking_signature_make("tiny", "Hm.", 3, own);
    thinking_signature_make("large", "Hm.", 3, other);
#define THOUGHT "{\"type\":\"thinking\",\"thinking\":\"Hm.\",\"signature\":\"%s\"}"
    text_buffer_append_format(
        &body,
        "{\"messages\":[" ASSISTANT("[" THOUGHT "," THOUGHT "," THOUGHT ",{\"type\":\"thinking\","
                                    "\"thinking\":\"none\"},{\"type\":\"redacted_thinking\","
                                    "\"data\":\"x\"},{\"type\":\"text\",\"text\":\"Yes.\"}]") "]}",
        own, other, "EqQBCgIYAhIk");
    assert_turns(body.bytes, "[{\"role\":\"assistant\",\"content\":\"Yes.\","
                             "\"reasoning_content\":\"Hm.\"}]");
    text_buffer_clear(&body);
    text_buffer_append_format(
        &body,
        "{\"messages\":[" ASSISTANT("[{\"type\":\"thinking\","
                                    "\"thinking\":\"Ha.\",\"signature\":\"%s\"}]") "]}",
        own);
    cJSON *json = cJSON_Parse(body.bytes);
    assert_int_equal(messages_turns_make(json, "tiny", &no_images, &error), RESULT_INVALID);
    assert_string_equal(error.param, "messages[0].content[0].signature");
    cJSON_Delete(json);
    text_buffer_fini(&body);
}

static void refusals_name_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *param;
    } cases[] = {
        {"{}", "messages"},
        {"{\"messages\":{}}", "messages"},
        {"{\"messages\":[]}", "messages"},
        {"{\"messages\":[7]}", "messages[0].role"},
        {"{\"messages\":[{\"role\":\"tool\",\"content\":\"\"}]}", "messages[0].role"},
        {"{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content"},
        {"{\"messages\":[" USER("[]") "]}", "messages[0].content"},
        {"{\"messages\":[" USER("\"a\"") "," USER("[{}]") "]}", "messages[1].content[0]"},
        {"{\"messages\":[" USER("[{\"type\":\"image\",\"source\":{}}]") "]}",
         "messages[0].content[0]"},
        {"{\"messages\":[" USER("[{\"type\":\"tool_use\"}]") "]}", "messages[0].content[0].type"},
        {"{\"messages\":[" USER("[{\"type\":\"text\"}]") "]}", "messages[0].content[0].text"},
        {"{\"messages\":[" USER("[{\"type\":\"tool_result\"}]") "]}",
         "messages[0].content[0].tool_use_id"},
        {"{\"messages\":[" USER(
             "[{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"is_error\":1}]") "]}",
         "messages[0].content[0].is_error"},
        {"{\"messages\":[" USER("[{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":[{"
                                "\"type\":\"image\"}]}]") "]}",
         "messages[0].content[0].content[0]"},
        {"{\"messages\":[" ASSISTANT("[{\"type\":\"tool_use\",\"id\":\"\"}]") "]}",
         "messages[0].content[0].id"},
        {"{\"messages\":[" ASSISTANT(
             "[{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":"
             "[]}]") "]}",
         "messages[0].content[0].input"},
        {"{\"messages\":[" ASSISTANT("[{\"type\":\"server_tool_use\"}]") "]}",
         "messages[0].content[0].type"},
        {"{\"system\":7,\"messages\":[" USER("\"a\"") "]}", "system"},
        {"{\"system\":[{\"type\":\"image\"}],\"messages\":[" USER("\"a\"") "]}", "system[0].type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct api_error error = {0};
        cJSON *body = cJSON_ParseWithOpts(cases[i].body, NULL, true);
        assert_non_null(body);
        assert_int_equal(messages_turns_make(body, "tiny", &no_images, &error), RESULT_INVALID);
        assert_string_equal(error.param, cases[i].param);
        assert_int_equal(error.status, 400);
        cJSON_Delete(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_become_turns),
        cmocka_unit_test(billing_lines_are_removed),
        cmocka_unit_test(calls_and_results_keep_their_order_and_ids),
        cmocka_unit_test(only_this_models_thinking_is_kept),
        cmocka_unit_test(refusals_name_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
