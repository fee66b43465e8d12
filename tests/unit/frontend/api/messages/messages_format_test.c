/*
 * The message around its blocks: order of a stream, the whole object, stop reasons, counts, errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <string.h>

#include "frontend/api/generation/api_format.h"
#include "frontend/api/generation/prepared_generation.h"
#include "frontend/api/messages/messages_format.h"
#include "tests/support/tiny_assets.h"

static uint32_t prompt_ids[3] = {1, 2, 3};

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

static struct prepared_generation prepared(bool stream)
{
    return (struct prepared_generation){
        .request = {.stream = stream, .max_new_tokens = 10},
        .prompt = {.ids = prompt_ids, .count = 3},
        .max_new_tokens = 10,
    };
}

/* Pushes "he" the given number of times, and the end. */
static void answer(const struct prepared_generation *prepared, int tokens,
                   enum finish_reason finish, struct text_buffer *out)
{
    struct api_reply *reply =
        messages_format.reply_create(&(struct reply_config){.assets = &assets,
                                                            .prepared = prepared,
                                                            .id = "msg_1",
                                                            .request_id = "r-1",
                                                            .created_unix_s = 99});
    messages_format.reply_begin(reply, out);
    bool stopped = false;
    for (int i = 0; i < tokens && !stopped; i++)
        stopped = messages_format.reply_token(reply, 0, &(struct reply_token){.id = TINY_HE}, out);
    messages_format.reply_choice_end(reply, 0, stopped ? FINISH_STOP_TOKEN : finish,
                                     (struct cached_prompt){2, 1}, out);
    messages_format.reply_end(reply, out);
    messages_format.reply_destroy(reply);
}

#define USAGE(input, cached, images, output)                                                       \
    "\"usage\":{\"input_tokens\":" input ",\"cache_creation_input_tokens\":0,"                     \
    "\"cache_read_input_tokens\":" cached ",\"cache_read_input_images\":" images                   \
    ",\"output_tokens\":" output ",\"output_tokens_details\":{\"thinking_tokens\":0}}"

static void a_stream_begins_with_the_prompts_tokens_and_ends_with_the_reason(void **state)
{
    (void)state;
    struct prepared_generation one = prepared(true);
    struct text_buffer out = {0};
    answer(&one, 1, FINISH_STOP_TOKEN, &out);
    assert_string_equal(
        out.bytes,
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\","
        "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"tiny\",\"content\":[],"
        "\"stop_reason\":null,\"stop_sequence\":null," USAGE(
            "3", "0", "0",
            "0") "}}\n\n"
                 "event: ping\ndata: {\"type\":\"ping\"}\n\n"
                 "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
                 "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
                 "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"
                 "\"delta\":{\"type\":\"text_delta\",\"text\":\"he\"}}\n\n"
                 "event: content_block_stop\ndata: "
                 "{\"type\":\"content_block_stop\",\"index\":0}\n\n"
                 "event: message_delta\ndata: "
                 "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
                 "\"end_turn\",\"stop_sequence\":null}," USAGE(
                     "1", "2", "1",
                     "1") "}\n\n"
                          "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    text_buffer_fini(&out);
}

static void a_whole_message_is_one_object(void **state)
{
    (void)state;
    struct prepared_generation one = prepared(false);
    struct text_buffer out = {0};
    answer(&one, 2, FINISH_STOP_TOKEN, &out);
    assert_string_equal(
        out.bytes,
        "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":"
        "\"tiny\",\"content\":[{\"type\":\"text\",\"text\":\"hehe\"}],"
        "\"stop_reason\":\"end_turn\",\"stop_sequence\":null," USAGE("1", "2", "1", "2") "}");
    text_buffer_clear(&out);
    answer(&one, 0, FINISH_STOP_TOKEN, &out);
    assert_non_null(strstr(out.bytes, "\"content\":[],\"stop_reason\":\"end_turn\""));
    text_buffer_fini(&out);
}

static void stop_reasons_are_reported(void **state)
{
    (void)state;
    struct text_buffer out = {0};
    for (int stream = 0; stream < 2; stream++) {
        struct prepared_generation one = prepared(stream == 1);
        text_buffer_clear(&out);
        answer(&one, 2, FINISH_LENGTH, &out);
        assert_non_null(strstr(out.bytes, "\"stop_reason\":\"max_tokens\",\"stop_sequence\":null"));
        one.max_new_tokens = 2; /* all that the context leaves */
        text_buffer_clear(&out);
        answer(&one, 2, FINISH_LENGTH, &out);
        assert_non_null(strstr(out.bytes, "\"stop_reason\":\"model_context_window_exceeded\""));
        one.request.stops[0] = (struct stop_string){"eh", 2};
        one.request.stop_count = 1;
        text_buffer_clear(&out);
        answer(&one, 4, FINISH_LENGTH, &out);
        assert_non_null(
            strstr(out.bytes, "\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"eh\""));
        assert_non_null(strstr(out.bytes, "\"text\":\"h\""));
    }
    text_buffer_fini(&out);
}

static void a_failed_stream_ends_with_an_error_event(void **state)
{
    (void)state;
    struct prepared_generation one = prepared(true);
    struct text_buffer out = {0};
    struct api_error error;
    struct api_reply *reply = messages_format.reply_create(&(struct reply_config){
        .assets = &assets, .prepared = &one, .id = "msg_1", .request_id = "r-1"});
    (void)api_error_set(&error, RESULT_PEER_GONE, 500, "worker_crashed", "the worker died");
    messages_format.reply_fail(reply, &error, &out);
    assert_string_equal(out.bytes,
                        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\","
                        "\"message\":\"the worker died\",\"details\":{\"error_code\":"
                        "\"worker_crashed\"}},\"request_id\":\"r-1\"}\n\n");
    messages_format.reply_destroy(reply);
    text_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_begins_with_the_prompts_tokens_and_ends_with_the_reason),
        cmocka_unit_test(a_whole_message_is_one_object),
        cmocka_unit_test(stop_reasons_are_reported),
        cmocka_unit_test(a_failed_stream_ends_with_an_error_event),
    };
    return cmocka_run_group_tests(tests, open_assets, close_assets);
}
