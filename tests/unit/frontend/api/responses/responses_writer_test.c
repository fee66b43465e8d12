/*
 * Items and events of an answer: order and numbers, added items equal done items, and deltas join
 * to the text of their item.
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

#include "frontend/api/responses/responses_writer.h"
#include "tests/support/tiny_tokenizer.h"

#define ID "resp_00ff"

static const struct tokenizer *tokenizer; /* of tests with log-probabilities */
static struct text_buffer out;

static void take(struct responses_writer *writer, enum reply_event_kind kind, uint32_t call,
                 const char *id, const char *bytes)
{
    responses_writer_take(
        writer, &(struct reply_event){
                    .kind = kind, .call = call, .id = id, .bytes = bytes, .length = strlen(bytes)});
}

static struct responses_writer begin(bool stream)
{
    struct responses_writer writer;
    out = (struct text_buffer){0};
    text_buffer_append_text(&out, "");
    responses_writer_init(&writer, ID, stream, tokenizer);
    writer.out = &out;
    return writer;
}

/* Reasoning, text, a call with an id of the model's, one without. */
static void play(struct responses_writer *writer)
{
    take(writer, REPLY_REASONING, 0, NULL, "I \"think\"");
    take(writer, REPLY_REASONING, 0, NULL, "\nso");
    take(writer, REPLY_CONTENT, 0, NULL, "Let me ");
    take(writer, REPLY_CONTENT, 0, NULL, "look.");
    take(writer, REPLY_CALL_BEGIN, 0, "abc123", "find");
    take(writer, REPLY_CALL_ARGUMENTS, 0, NULL, "{\"q\":");
    take(writer, REPLY_CALL_ARGUMENTS, 0, NULL, "1}");
    take(writer, REPLY_CALL_END, 0, NULL, "");
    take(writer, REPLY_CALL_BEGIN, 1, NULL, "list");
    take(writer, REPLY_CALL_ARGUMENTS, 1, NULL, "{}");
    take(writer, REPLY_CALL_END, 1, NULL, "");
}

#define TEXT_PART(text)                                                                            \
    "{\"type\":\"output_text\",\"text\":\"" text "\",\"annotations\":[],\"logprobs\":[]}"
#define THOUGHT_PART(text) "{\"type\":\"reasoning_text\",\"text\":\"" text "\"}"

static const char whole_items[] =
    "{\"id\":\"rs_00ffo0000\",\"type\":\"reasoning\",\"status\":\"completed\",\"summary\":[],"
    "\"encrypted_content\":null,\"content\":[" THOUGHT_PART(
        "I \\\"think\\\"\\nso") "]},"
                                "{\"id\":\"msg_00ffo0001\",\"type\":\"message\",\"status\":"
                                "\"completed\",\"role\":\"assistant\","
                                "\"content\":[" TEXT_PART(
                                    "Let me look.") "]},"
                                                    "{\"id\":\"fc_00ffo0002\",\"type\":\"function_"
                                                    "call\",\"status\":\"completed\",\"call_id\":"
                                                    "\"abc123\",\"name\":\"find\",\"arguments\":\"{"
                                                    "\\\"q\\\":1}\"},"
                                                    "{\"id\":\"fc_00ffo0003\",\"type\":\"function_"
                                                    "call\",\"status\":\"completed\",\"call_id\":"
                                                    "\"call_00ff0001\",\"name\":\"list\","
                                                    "\"arguments\":\"{}\"}";

static void items_are_in_the_order_of_the_answer(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        struct responses_writer writer = begin(stream);
        play(&writer);
        responses_writer_close(&writer, "completed");
        assert_string_equal(writer.items.text.bytes, whole_items);
        assert_int_equal(writer.items.count, 4);
        assert_int_equal(out.length > 0, stream);
        responses_writer_fini(&writer);
        text_buffer_fini(&out);
    }
}

/* --- the stream ------------------------------------------------------------------------------ */

/* The events of `out`: names are checked against the data, numbers counted. */
static cJSON *events_parse(void)
{
    cJSON *list = cJSON_CreateArray();
    int number = 0;
    for (char *at = out.bytes; *at;) {
        char *end = strstr(at, "\n\n");
        char *data = strstr(at, "\ndata: ");
        assert_non_null(end);
        assert_true(data && data < end && strncmp(at, "event: ", 7) == 0);
        *end = *data = '\0';
        cJSON *event = cJSON_ParseWithOpts(data + 7, NULL, true);
        assert_non_null(event);
        assert_string_equal(cJSON_GetObjectItem(event, "type")->valuestring, at + 7);
        assert_int_equal(cJSON_GetObjectItem(event, "sequence_number")->valueint, number++);
        cJSON_AddItemToArray(list, event);
        at = end + 2;
    }
    return list;
}

static const char *text_of(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItem(object, name)->valuestring;
}

static void every_item_has_added_delta_and_done_events(void **state)
{
    (void)state;
    static const char *const names[] = {"output_item.added",
                                        "content_part.added",
                                        "reasoning_text.delta",
                                        "reasoning_text.delta",
                                        "reasoning_text.done",
                                        "content_part.done",
                                        "output_item.done",
                                        "output_item.added",
                                        "content_part.added",
                                        "output_text.delta",
                                        "output_text.delta",
                                        "output_text.done",
                                        "content_part.done",
                                        "output_item.done",
                                        "output_item.added",
                                        "function_call_arguments.delta",
                                        "function_call_arguments.delta",
                                        "function_call_arguments.done",
                                        "output_item.done",
                                        "output_item.added",
                                        "function_call_arguments.delta",
                                        "function_call_arguments.done",
                                        "output_item.done"};
    struct responses_writer writer = begin(true);
    play(&writer);
    cJSON *list = events_parse(), *done = cJSON_CreateArray();
    char joined[64] = "", id[64] = "";
    size_t at = 0;
    cJSON *event;
    cJSON_ArrayForEach(event, list)
    {
        const char *type = text_of(event, "type") + strlen("response.");
        const cJSON *item = cJSON_GetObjectItem(event, "item");
        assert_true(at < sizeof names / sizeof names[0]);
        assert_string_equal(type, names[at++]);
        assert_int_equal(cJSON_GetObjectItem(event, "output_index")->valueint,
                         cJSON_GetArraySize(done));
        if (strcmp(type, "output_item.added") == 0) {
            joined[0] = '\0';
            snprintf(id, sizeof id, "%s", text_of(item, "id"));
            assert_string_equal(text_of(item, "status"), "in_progress");
        } else if (strcmp(type, "output_item.done") == 0) {
            assert_string_equal(text_of(item, "id"), id);
            cJSON_AddItemToArray(done, cJSON_Duplicate(item, true));
        } else {
            assert_string_equal(text_of(event, "item_id"), id);
        }
        if (strstr(type, ".delta"))
            strcat(joined, text_of(event, "delta"));
        if (strstr(type, "text.done"))
            assert_string_equal(text_of(event, "text"), joined);
        if (strstr(type, "arguments.done"))
            assert_string_equal(text_of(event, "arguments"), joined);
    }
    assert_int_equal(at, sizeof names / sizeof names[0]);
    char *text = cJSON_PrintUnformatted(done);
    assert_int_equal(strlen(text), sizeof whole_items - 1 + 2);
    assert_memory_equal(text + 1, whole_items, sizeof whole_items - 1);
    cJSON_free(text);
    cJSON_Delete(done);
    cJSON_Delete(list);
    responses_writer_fini(&writer);
    text_buffer_fini(&out);
}

static void a_cut_call_is_incomplete(void **state)
{
    (void)state;
    struct responses_writer writer = begin(false);
    take(&writer, REPLY_CALL_BEGIN, 0, NULL, "find");
    take(&writer, REPLY_CALL_ARGUMENTS, 0, NULL, "{\"q\":\"");
    responses_writer_close(&writer, "incomplete");
    responses_writer_close(&writer, "incomplete"); /* nothing is open: nothing happens */
    assert_string_equal(writer.items.text.bytes,
                        "{\"id\":\"fc_00ffo0000\",\"type\":\"function_call\",\"status\":"
                        "\"incomplete\",\"call_id\":\"call_00ff0000\",\"name\":\"find\","
                        "\"arguments\":\"{\\\"q\\\":\\\"\"}");
    responses_writer_fini(&writer);
    text_buffer_fini(&out);
}

static void an_empty_answer_is_an_empty_message(void **state)
{
    (void)state;
    struct responses_writer writer = begin(true);
    responses_writer_end_empty(&writer);
    responses_writer_close(&writer, "completed");
    assert_string_equal(writer.items.text.bytes,
                        "{\"id\":\"msg_00ffo0000\",\"type\":\"message\",\"status\":\"completed\","
                        "\"role\":\"assistant\",\"content\":[" TEXT_PART("") "]}");
    responses_writer_end_empty(&writer); /* it has said something */
    assert_int_equal(writer.open, RESPONSES_NO_ITEM);
    cJSON *list = events_parse();
    assert_int_equal(cJSON_GetArraySize(list), 5);
    cJSON_Delete(list);
    responses_writer_fini(&writer);
    text_buffer_fini(&out);
}

/* Pushes a token that the events of this piece come with. */
static void say(struct responses_writer *writer, enum reply_event_kind kind, uint32_t token,
                const char *bytes)
{
    struct reply_token reply_token = {.id = token, .logprob = -0.5f};
    responses_writer_set_token(writer, &reply_token);
    if (bytes[0])
        take(writer, kind, 0, NULL, bytes);
    responses_writer_set_token(writer, NULL);
}

static void logprobs_belong_to_their_text(void **state)
{
    (void)state;
    struct tokenizer *opened = tiny_tokenizer_open();
    tokenizer = opened;
    struct responses_writer writer = begin(true);
    say(&writer, REPLY_REASONING, 'r', "r");
    say(&writer, REPLY_REASONING, '>', ""); /* a mark */
    say(&writer, REPLY_CONTENT, 'a', "a");
    say(&writer, REPLY_CONTENT, TINY_HE, "he");
    responses_writer_end_tokens(&writer, false);
    responses_writer_close(&writer, "completed");
#define LOGPROB(token, bytes)                                                                      \
    "{\"token\":\"" token "\",\"logprob\":-0.5,\"bytes\":[" bytes "],\"top_logprobs\":[]}"
    assert_non_null(strstr(writer.items.text.bytes,
                           "\"text\":\"ahe\",\"annotations\":[],\"logprobs\":[" LOGPROB(
                               "a", "97") "," LOGPROB("he", "104,101") "]"));
    assert_non_null(strstr(out.bytes, "\"delta\":\"a\",\"logprobs\":[" LOGPROB("a", "97") "]}\n"));
    assert_non_null(
        strstr(out.bytes, "\"delta\":\"he\",\"logprobs\":[" LOGPROB("he", "104,101") "]}\n"));
    assert_null(strstr(out.bytes, "\"token\":\"r\""));
    assert_null(strstr(out.bytes, "\"token\":\">\""));
    responses_writer_fini(&writer);
    text_buffer_fini(&out);
    tokenizer = NULL;
    tokenizer_close(opened);
}

static void an_error_is_an_event_with_a_number(void **state)
{
    (void)state;
    struct responses_writer writer = begin(true);
    static const char message[] = "it \"died\"";
    responses_writer_tell_error(&writer, "worker_lost", message, sizeof message - 1);
    assert_string_equal(out.bytes, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,"
                                   "\"code\":\"worker_lost\",\"message\":\"it \\\"died\\\"\","
                                   "\"param\":null}\n\n");
    responses_writer_fini(&writer);
    text_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_in_the_order_of_the_answer),
        cmocka_unit_test(every_item_has_added_delta_and_done_events),
        cmocka_unit_test(a_cut_call_is_incomplete),
        cmocka_unit_test(an_empty_answer_is_an_empty_message),
        cmocka_unit_test(logprobs_belong_to_their_text),
        cmocka_unit_test(an_error_is_an_event_with_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
