/*
 * The bytes of a completion: choices of several prompts, streamed and whole, echoes, the four lists
 * of log-probabilities, stop strings, errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <string.h>

#include "frontend/api/chat/completions_format.h"
#include "frontend/api/generation/api_format.h"
#include "frontend/api/generation/generation_prepare.h"
#include "tests/support/tiny_assets.h"

static struct model_assets assets;
static struct text_buffer out;

static int open_assets(void **state)
{
    (void)state;
    tiny_assets_open(&assets, NULL);
    return 0;
}

static int close_assets(void **state)
{
    (void)state;
    text_buffer_fini(&out);
    tiny_assets_close(&assets);
    return 0;
}

static struct api_reply *begin(const char *body, struct prepared_generation *prepared)
{
    struct api_error error;
    text_buffer_clear(&out);
    assert_int_equal(generation_prepare(&completions_format,
                                        &(struct parse_context){.assets = &assets}, body,
                                        strlen(body), 0, prepared, &error),
                     RESULT_OK);
    struct api_reply *reply = completions_format.reply_create(&(struct reply_config){
        .assets = &assets, .prepared = prepared, .id = "cmpl-1", .created_unix_s = 99});
    completions_format.reply_begin(reply, &out);
    return reply;
}

static bool push(struct api_reply *reply, uint32_t choice, uint32_t token)
{
    return completions_format.reply_token(
        reply, choice, &(struct reply_token){.id = token, .logprob = -0.5f, .now_us = 1}, &out);
}

static void finish(struct api_reply *reply, struct prepared_generation *prepared)
{
    completions_format.reply_end(reply, &out);
    completions_format.reply_destroy(reply);
    prepared_generation_fini(prepared);
}

static void choice_end(struct api_reply *reply, uint32_t choice, enum finish_reason reason)
{
    completions_format.reply_choice_end(reply, choice, reason, (struct cached_prompt){0}, &out);
}

/* The body, parsed. */
static cJSON *whole(void)
{
    cJSON *object = cJSON_ParseWithLength(out.bytes, out.length);
    assert_non_null(object);
    return object;
}

static const cJSON *choice_of(const cJSON *object, int index)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItem(object, "choices"), index);
}

static void every_prompt_gets_all_choices(void **state)
{
    (void)state;
    struct prepared_generation prepared;
    struct api_reply *reply =
        begin("{\"prompt\":[[104,101],[104,101,257]],\"n\":2,\"echo\":true}", &prepared);
    for (uint32_t i = 0; i < 4; i++) {
        assert_false(push(reply, i, 'a' + i));
        choice_end(reply, i, i == 3 ? FINISH_LENGTH : FINISH_STOP_TOKEN);
    }
    finish(reply, &prepared);
    static const char *const texts[] = {"hea", "heb", "hellc", "helld"};
    cJSON *object = whole();
    for (int i = 0; i < 4; i++) {
        const cJSON *choice = choice_of(object, i);
        assert_string_equal(cJSON_GetObjectItem(choice, "text")->valuestring, texts[i]);
        assert_int_equal(cJSON_GetObjectItem(choice, "index")->valueint, i);
        assert_string_equal(cJSON_GetObjectItem(choice, "finish_reason")->valuestring,
                            i == 3 ? "length" : "stop");
        assert_true(cJSON_IsNull(cJSON_GetObjectItem(choice, "logprobs")));
    }
    const cJSON *usage = cJSON_GetObjectItem(object, "usage");
    assert_int_equal(cJSON_GetObjectItem(usage, "prompt_tokens")->valueint, 2 + 3);
    assert_int_equal(cJSON_GetObjectItem(usage, "completion_tokens")->valueint, 4);
    cJSON_Delete(object);
}

static void logprobs_are_lists(void **state)
{
    (void)state;
    struct prepared_generation prepared;
    struct api_reply *reply = begin("{\"prompt\":\"x\",\"logprobs\":0}", &prepared);
    push(reply, 0, TINY_HE);
    push(reply, 0, 0xc3); /* half of an e with an accent */
    push(reply, 0, 0xa9);
    choice_end(reply, 0, FINISH_LENGTH);
    finish(reply, &prepared);
    cJSON *object = whole();
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItem(choice_of(object, 0), "logprobs"));
    assert_string_equal(text, "{\"tokens\":[\"he\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\"],"
                              "\"token_logprobs\":[-0.5,-0.5,-0.5],\"top_logprobs\":[{\"he\":-0.5},"
                              "{\"bytes:\\\\xc3\":-0.5},{\"bytes:\\\\xa9\":-0.5}],"
                              "\"text_offset\":[0,2,2]}");
    cJSON_free(text);
    cJSON_Delete(object);
}

static void a_stream_is_cut_at_stop_strings(void **state)
{
    (void)state;
    struct prepared_generation prepared;
    struct api_reply *reply =
        begin("{\"prompt\":\"x\",\"stream\":true,\"stop\":\"ll\"}", &prepared);
    assert_false(push(reply, 0, TINY_HE));
    assert_false(push(reply, 0, 'l'));
    assert_true(push(reply, 0, 'l'));
    choice_end(reply, 0, FINISH_STOP_TOKEN);
    finish(reply, &prepared);
#define HEAD                                                                                       \
    "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":99,\"model\":\"tiny\","   \
    "\"system_fingerprint\":\"\",\"choices\":[{\"index\":0,\"text\":"
    assert_string_equal(
        out.bytes,
        HEAD "\"he\",\"logprobs\":null,\"finish_reason\":null}]}\n\n" HEAD
             "\"\",\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":\"ll\"}]}\n\n"
             "data: [DONE]\n\n");
}

static void a_stream_fails_with_an_event(void **state)
{
    (void)state;
    struct prepared_generation prepared;
    struct api_error error;
    struct api_reply *reply = begin("{\"prompt\":\"x\",\"stream\":true}", &prepared);
    (void)api_error_set(&error, RESULT_FULL, 500, "worker_crashed", "gone");
    completions_format.reply_fail(reply, &error, &out);
    assert_string_equal(out.bytes,
                        "data: {\"error\":{\"message\":\"gone\",\"type\":\"server_error\","
                        "\"param\":null,\"code\":\"worker_crashed\"}}\n\ndata: [DONE]\n\n");
    completions_format.reply_destroy(reply);
    prepared_generation_fini(&prepared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_prompt_gets_all_choices),
        cmocka_unit_test(logprobs_are_lists),
        cmocka_unit_test(a_stream_is_cut_at_stop_strings),
        cmocka_unit_test(a_stream_fails_with_an_event),
    };
    return cmocka_run_group_tests(tests, open_assets, close_assets);
}
