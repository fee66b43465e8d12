/*
 * The bytes of a reply: chunk order of a stream, the whole object, usage, errors in both modes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <string.h>

#include "frontend/api/chat/chat_format.h"
#include "frontend/api/generation/api_format.h"
#include "frontend/api/generation/prepared_generation.h"
#include "tests/support/tiny_assets.h"

static struct model_assets assets;
static uint32_t prompt_ids[3] = {1, 2, 3};

static int open_assets(void **state)
{
    (void)state;
    tiny_assets_open(&assets, NULL);
    strcpy(assets.model_id, "ti\"ny");
    return 0;
}

static int close_assets(void **state)
{
    (void)state;
    tiny_assets_close(&assets);
    return 0;
}

static struct prepared_generation prepared(bool stream, bool usage)
{
    return (struct prepared_generation){
        .request = {.stream = stream, .include_usage = usage},
        .prompt = {.ids = prompt_ids, .count = 3},
        .max_new_tokens = 10,
    };
}

static struct api_reply *create(const struct prepared_generation *chat, const char *id)
{
    return chat_format.reply_create(&(struct reply_config){
        .assets = &assets, .prepared = chat, .id = id, .request_id = "r", .created_unix_s = 99});
}

static bool push(struct api_reply *reply, uint32_t token, bool is_stop, struct text_buffer *out)
{
    static int64_t now_us;
    now_us = token == TINY_HE ? 5000 : now_us + 1000; /* the first token of every test is "he" */
    return chat_format.reply_token(
        reply, 0,
        &(struct reply_token){
            .id = token, .is_stop = is_stop, .now_us = now_us, .scheduled_us = 3000},
        out);
}

static void stream_has_role_deltas_finish_usage_done(void **state)
{
    (void)state;
    struct prepared_generation chat = prepared(true, true);
    struct api_reply *reply = create(&chat, "chatcmpl-1");
    struct text_buffer out = {0};
    chat_format.reply_begin(reply, &out);
    assert_false(push(reply, TINY_HE, false, &out));
    assert_false(push(reply, 0xc3, false, &out)); /* half a character: no chunk */
    assert_false(push(reply, 0xa9, false, &out));
    assert_false(push(reply, TINY_END, true, &out));
    chat_format.reply_choice_end(reply, 0, FINISH_STOP_TOKEN, (struct cached_prompt){2, 1}, &out);
    chat_format.reply_end(reply, &out);
#define HEAD                                                                                       \
    "data: "                                                                                       \
    "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":99,\"model\":"        \
    "\"ti\\\"ny\",\"system_fingerprint\":\"\",\"choices\":["
#define TAIL ",\"usage\":null}\n\n"
    assert_string_equal(
        out.bytes, HEAD
        "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
        "\"finish_reason\":null}]" TAIL HEAD
        "{\"index\":0,\"delta\":{\"content\":\"he\"},\"logprobs\":null,\"finish_reason\":null}"
        "]" TAIL HEAD "{\"index\":0,\"delta\":{\"content\":\"\xc3\xa9\"},\"logprobs\":null,"
        "\"finish_reason\":null}]" TAIL HEAD "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_"
        "reason\":\"stop\",\"stop_reason\":null}]" TAIL HEAD
        "],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,\"total_tokens\":7,"
        "\"prompt_tokens_details\":{\"cached_tokens\":2,\"cached_images\":1},"
        "\"completion_tokens_details\":{"
        "\"reasoning_tokens\":0}},\"timings\":{\"cache_n\":2,\"prompt_n\":1,\"prompt_ms\":2.000,"
        "\"prompt_per_token_ms\":2.000,\"prompt_per_second\":500.000,\"predicted_n\":4,"
        "\"predicted_ms\":3.000,\"predicted_per_token_ms\":0.750,\"predicted_per_second\":"
        "1333.333}}\n\ndata: [DONE]\n\n");
    text_buffer_fini(&out);
    chat_format.reply_destroy(reply);
}

static void whole_reply_is_one_object(void **state)
{
    (void)state;
    struct prepared_generation chat = prepared(false, false);
    struct api_reply *reply = create(&chat, "chatcmpl-2");
    struct text_buffer out = {0};
    chat_format.reply_begin(reply, &out);
    (void)push(reply, TINY_HE, false, &out);
    (void)push(reply, '\n', false, &out);
    assert_int_equal(out.length, 0);
    chat_format.reply_choice_end(reply, 0, FINISH_LENGTH, (struct cached_prompt){0}, &out);
    chat_format.reply_end(reply, &out);
    cJSON *json = cJSON_ParseWithOpts(out.bytes, NULL, true);
    assert_non_null(json);
    const cJSON *choice = cJSON_GetObjectItem(json, "choices")->child;
    const cJSON *message = cJSON_GetObjectItem(choice, "message");
    assert_string_equal(cJSON_GetObjectItem(json, "object")->valuestring, "chat.completion");
    assert_string_equal(cJSON_GetObjectItem(message, "content")->valuestring, "he\n");
    assert_string_equal(cJSON_GetObjectItem(choice, "finish_reason")->valuestring, "length");
    cJSON_Delete(json);
    text_buffer_fini(&out);
    chat_format.reply_destroy(reply);
}

static void failed_stream_still_ends(void **state)
{
    (void)state;
    struct prepared_generation chat = prepared(true, false);
    struct api_reply *reply = create(&chat, "chatcmpl-3");
    struct text_buffer out = {0};
    struct api_error error;
    (void)api_error_set(&error, RESULT_PEER_GONE, 500, "worker_crashed", "the worker died");
    chat_format.reply_fail(reply, &error, &out);
    assert_string_equal(
        out.bytes, "data: {\"error\":{\"message\":\"the worker died\",\"type\":\"server_error\","
                   "\"param\":null,\"code\":\"worker_crashed\"}}\n\ndata: [DONE]\n\n");
    text_buffer_fini(&out);
    chat_format.reply_destroy(reply);
}

static void error_words_are_always_valid_json(void **state)
{
    (void)state;
    struct api_error error;
    struct text_buffer out = {0};
    (void)api_error_invalid(&error, "a\"b", "bad \xc3 byte \x01 and \"quotes\"");
    api_error_write_json(&error, &out);
    assert_string_equal(out.bytes, "{\"error\":{\"message\":\"bad \xef\xbf\xbd byte \\u0001 and "
                                   "\\\"quotes\\\"\",\"type\":\"invalid_request_error\","
                                   "\"param\":\"a\\\"b\",\"code\":null}}");
    text_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_has_role_deltas_finish_usage_done),
        cmocka_unit_test(whole_reply_is_one_object),
        cmocka_unit_test(failed_stream_still_ends),
        cmocka_unit_test(error_words_are_always_valid_json),
    };
    return cmocka_run_group_tests(tests, open_assets, close_assets);
}
