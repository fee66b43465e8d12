/*
 * Blocks of an answer, streamed and whole: order, contents, and that both agree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "frontend/api/messages/messages_blocks.h"
#include "frontend/api/messages/thinking_signature.h"

struct step {
    enum reply_event_kind kind;
    uint32_t call;
    const char *id;
    const char *text;
};

static const struct step whole_answer[] = {
    {REPLY_REASONING, 0, NULL, "Let me "},
    {REPLY_REASONING, 0, NULL, "see."},
    {REPLY_CONTENT, 0, NULL, "I \"look\""},
    {REPLY_CONTENT, 0, NULL, " it up.\n"},
    {REPLY_CALL_BEGIN, 0, NULL, "weather"},
    {REPLY_CALL_ARGUMENTS, 0, NULL, "{\"city\":"},
    {REPLY_CALL_ARGUMENTS, 0, NULL, "\"Paris\"}"},
    {REPLY_CALL_END, 0, NULL, ""},
    {REPLY_CALL_BEGIN, 1, "functions.time:1", "time"},
    {REPLY_CALL_ARGUMENTS, 1, NULL, "{}"},
    {REPLY_CALL_END, 1, NULL, ""},
    {REPLY_REASONING, 0, NULL, "Hm."},
};

static void run(const struct step *steps, size_t count, struct messages_blocks *blocks,
                struct text_buffer *out)
{
    blocks->message_id = "msg_abc";
    blocks->model_id = "tiny";
    blocks->out = out;
    for (size_t i = 0; i < count; i++)
        messages_blocks_event(blocks, &(struct reply_event){.kind = steps[i].kind,
                                                            .call = steps[i].call,
                                                            .id = steps[i].id,
                                                            .bytes = steps[i].text,
                                                            .length = strlen(steps[i].text)});
    messages_blocks_end(blocks);
    assert_false(out->failed || blocks->content.failed);
}

/* A copy of the member as text. */
static void text_of(const cJSON *object, const char *name, char *text, size_t bytes)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);
    assert_true(cJSON_IsString(item));
    snprintf(text, bytes, "%s", item->valuestring);
}

static void assert_signed(const cJSON *block)
{
    char words[64];
    char signature[THINKING_SIGNATURE_BYTES];
    text_of(block, "thinking", words, sizeof words);
    text_of(block, "signature", signature, sizeof signature);
    assert_int_equal(thinking_signature_check("tiny", words, strlen(words), signature),
                     THINKING_OWN);
}

static void a_whole_message_has_all_blocks_in_order(void **state)
{
    (void)state;
    struct messages_blocks blocks = {0};
    struct text_buffer out = {0};
    struct text_buffer list = {0};
    run(whole_answer, sizeof whole_answer / sizeof whole_answer[0], &blocks, &out);
    assert_int_equal(out.length, 0);
    text_buffer_append_format(&list, "[%s]", blocks.content.bytes);
    cJSON *content = cJSON_ParseWithOpts(list.bytes, NULL, true);
    assert_int_equal(cJSON_GetArraySize(content), 5);
    assert_signed(cJSON_GetArrayItem(content, 0));
    assert_signed(cJSON_GetArrayItem(content, 4));
    char *text = cJSON_PrintUnformatted(cJSON_GetArrayItem(content, 1));
    assert_string_equal(text, "{\"type\":\"text\",\"text\":\"I \\\"look\\\" it up.\\n\"}");
    cJSON_free(text);
    text = cJSON_PrintUnformatted(cJSON_GetArrayItem(content, 2));
    assert_string_equal(text, "{\"type\":\"tool_use\",\"id\":\"toolu_abc00\",\"name\":\"weather\","
                              "\"input\":{\"city\":\"Paris\"}}");
    cJSON_free(text);
    text = cJSON_PrintUnformatted(cJSON_GetArrayItem(content, 3));
    assert_string_equal(text, "{\"type\":\"tool_use\",\"id\":\"toolu_functions.time:1\","
                              "\"name\":\"time\",\"input\":{}}");
    cJSON_free(text);
    cJSON_Delete(content);
    text_buffer_fini(&list);
    messages_blocks_fini(&blocks);
}

#define EVENT(name, rest) "event: " name "\ndata: {\"type\":\"" name "\"" rest "}\n\n"
#define STOP(index)       EVENT("content_block_stop", ",\"index\":" index)
#define DELTA(index, type, member, text)                                                           \
    EVENT("content_block_delta",                                                                   \
          ",\"index\":" index ",\"delta\":{\"type\":\"" type "\",\"" member "\":\"" text "\"}")

static void a_stream_has_start_deltas_and_stop_of_each_block(void **state)
{
    (void)state;
    struct messages_blocks blocks = {.stream = true};
    struct text_buffer out = {0};
    struct text_buffer expected = {0};
    char first[THINKING_SIGNATURE_BYTES];
    char last[THINKING_SIGNATURE_BYTES];
    thinking_signature_make("tiny", "Let me see.", 11, first);
    thinking_signature_make("tiny", "Hm.", 3, last);
    run(whole_answer, sizeof whole_answer / sizeof whole_answer[0], &blocks, &out);
#define THINKING_START(index)                                                                      \
    EVENT("content_block_start", ",\"index\":" index ",\"content_block\":{\"type\":\"thinking\","  \
                                 "\"thinking\":\"\",\"signature\":\"\"}")
#define CALL_START(index, id, name)                                                                \
    EVENT("content_block_start", ",\"index\":" index ",\"content_block\":{\"type\":\"tool_use\","  \
                                 "\"id\":\"" id "\",\"name\":\"" name "\",\"input\":{}}")
    text_buffer_append_format(
        &expected,
        THINKING_START("0") DELTA("0", "thinking_delta", "thinking", "Let me ")
            DELTA("0", "thinking_delta", "thinking", "see.") DELTA("0", "signature_delta",
                                                                   "signature", "%s") STOP("0")
                EVENT("content_block_start",
                      ",\"index\":1,\"content_block\":{\"type\":"
                      "\"text\",\"text\":\"\"}") DELTA("1", "text_delta", "text", "I \\\"look\\\"")
                    DELTA("1", "text_delta", "text", " it up.\\n") STOP("1")
                        CALL_START("2", "toolu_abc00", "weather")
                            DELTA("2", "input_json_delta", "partial_json", "{\\\"city\\\":")
                                DELTA("2", "input_json_delta", "partial_json", "\\\"Paris\\\"}")
                                    STOP("2") CALL_START("3", "toolu_functions.time:1", "time")
                                        DELTA("3", "input_json_delta", "partial_json", "{}")
                                            STOP("3") THINKING_START("4")
                                                DELTA("4", "thinking_delta", "thinking", "Hm.")
                                                    DELTA("4", "signature_delta", "signature", "%s")
                                                        STOP("4"),
        first, last);
    assert_string_equal(out.bytes, expected.bytes);
    assert_int_equal(blocks.content.length, 0);
    text_buffer_fini(&expected);
    text_buffer_fini(&out);
    messages_blocks_fini(&blocks);
}

static void omitted_thinking_has_a_signature_and_no_text(void **state)
{
    (void)state;
    static const struct step steps[] = {{REPLY_REASONING, 0, NULL, "secret"},
                                        {REPLY_CONTENT, 0, NULL, "Yes."}};
    for (int stream = 0; stream < 2; stream++) {
        struct messages_blocks blocks = {.stream = stream == 1, .omits_thinking = true};
        struct text_buffer out = {0};
        char signature[THINKING_SIGNATURE_BYTES];
        run(steps, 2, &blocks, &out);
        const char *said = stream == 1 ? out.bytes : blocks.content.bytes;
        thinking_signature_make("tiny", "", 0, signature);
        assert_null(strstr(said, "secret"));
        assert_non_null(strstr(said, signature));
        assert_non_null(strstr(said, "Yes."));
        text_buffer_fini(&out);
        messages_blocks_fini(&blocks);
    }
}

static void a_call_cut_off_is_still_an_object(void **state)
{
    (void)state;
    static const struct step cut[] = {{REPLY_CALL_BEGIN, 0, NULL, "f"},
                                      {REPLY_CALL_ARGUMENTS, 0, NULL, "{\"a\": \"b"}};
    static const struct step uncut[] = {{REPLY_CALL_BEGIN, 0, NULL, "f"},
                                        {REPLY_CALL_ARGUMENTS, 0, NULL, "{\"a\":1}"}};
    struct messages_blocks blocks = {0};
    struct text_buffer out = {0};
    run(cut, 2, &blocks, &out);
    assert_non_null(strstr(blocks.content.bytes, "\"input\":{}}"));
    messages_blocks_fini(&blocks);
    blocks = (struct messages_blocks){0};
    run(uncut, 2, &blocks, &out);
    assert_non_null(strstr(blocks.content.bytes, "\"input\":{\"a\":1}}"));
    messages_blocks_fini(&blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_message_has_all_blocks_in_order),
        cmocka_unit_test(a_stream_has_start_deltas_and_stop_of_each_block),
        cmocka_unit_test(omitted_thinking_has_a_signature_and_no_text),
        cmocka_unit_test(a_call_cut_off_is_still_an_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
