/*
 * Where a prompt is cut so that the answer continues the last message, and which messages cannot be
 * continued.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <string.h>

#include "frontend/api/generation/final_message.h"

static enum result check(const char *json, struct api_error *error)
{
    cJSON *messages = cJSON_Parse(json);
    enum result result = final_message_check(messages, error);
    cJSON_Delete(messages);
    return result;
}

static void only_text_of_the_assistant_can_be_continued(void **state)
{
    (void)state;
    struct api_error error;
    static const char *const bad[] = {
        "[]",
        "[{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"}]",
        "[{\"role\":\"assistant\",\"content\":\" \\n\"}]",
        "[{\"role\":\"assistant\",\"content\":null}]",
        "[{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[]}]",
        "[{\"content\":\"a\"}]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(check(bad[i], &error), RESULT_INVALID);
    assert_int_equal(check(bad[1], &error), RESULT_INVALID);
    assert_string_equal(error.param, "messages[1]");
    assert_int_equal(check("[{\"role\":\"assistant\",\"content\":\"a\"}]", &error), RESULT_OK);
    assert_int_equal(
        check("[{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]",
              &error),
        RESULT_OK);
}

/* The rest of "head" + "tail" as two spans, for a last message `content`. */
static enum result cut(const char *content, const char *head, const char *tail, char left[64],
                       size_t *spans)
{
    struct api_error error;
    char text[64];
    strcpy(text, head);
    strcat(text, tail);
    struct prompt_span list[] = {
        {.text = text, .text_bytes = strlen(head)},
        {.text = text + strlen(head), .text_bytes = strlen(tail), .trusted = true}};
    struct chat_prompt prompt = {
        .text = text, .text_bytes = strlen(text), .spans = list, .span_count = 2};
    cJSON *messages = cJSON_CreateArray();
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "content", content);
    cJSON_AddItemToArray(messages, message);
    enum result result = final_message_cut(messages, &prompt, &error);
    cJSON_Delete(messages);
    size_t bytes = 0;
    for (size_t i = 0; i < prompt.span_count; i++)
        bytes += list[i].text_bytes;
    assert_int_equal(bytes, prompt.text_bytes);
    memcpy(left, text, bytes);
    left[bytes] = '\0';
    *spans = prompt.span_count;
    return result;
}

static void the_prompt_ends_with_the_text(void **state)
{
    (void)state;
    char left[64];
    size_t spans;
    assert_int_equal(cut("Once", "<a>Once", "</a>\n", left, &spans), RESULT_OK);
    assert_string_equal(left, "<a>Once");
    assert_int_equal(spans, 1);
    /* the last place counts, and white space that the template kept */
    assert_int_equal(cut("ab ", "ab <ab ", "</a>", left, &spans), RESULT_OK);
    assert_string_equal(left, "ab <ab ");
    assert_int_equal(cut("\n ab ", "<ab", "</a>", left, &spans), RESULT_OK);
    assert_string_equal(left, "<ab");
    /* a text across spans is cut within the second */
    assert_int_equal(cut("abcd", "<ab", "cd</a>", left, &spans), RESULT_OK);
    assert_string_equal(left, "<abcd");
    assert_int_equal(spans, 2);
}

static void a_changed_text_is_refused(void **state)
{
    (void)state;
    char left[64];
    size_t spans;
    assert_int_equal(cut("Once", "<a>ONCE", "</a>", left, &spans), RESULT_INVALID);
    assert_int_equal(cut("a much longer text than that", "<a>", "</a>", left, &spans),
                     RESULT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_text_of_the_assistant_can_be_continued),
        cmocka_unit_test(the_prompt_ends_with_the_text),
        cmocka_unit_test(a_changed_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
