/*
 * A reply and its record: what the client gets, and what a fetch of the response returns meanwhile
 * and later.
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
#include "frontend/api/responses/response_store.h"
#include "frontend/api/responses/responses_format.h"
#include "tests/support/tiny_assets.h"

#define ID "resp_0a"

static const struct client_key nobody;
static struct model_assets assets;
static struct response_store *store;
static uint32_t prompt_ids[3] = {1, 2, 3};
static struct prepared_generation prepared;
static struct text_buffer out;

static int open_assets(void **state)
{
    (void)state;
    tiny_assets_open(&assets, NULL);
    store = response_store_create(1 << 20, 100);
    return 0;
}

static int close_assets(void **state)
{
    (void)state;
    response_store_destroy(store);
    tiny_assets_close(&assets);
    return 0;
}

static struct api_reply *begin(bool stream, bool background)
{
    struct response_draft draft = {.kept = true};
    struct response_record *record;
    out = (struct text_buffer){0};
    text_buffer_append_text(&out, "");
    assert_int_equal(response_record_create(store, &draft, &record), RESULT_OK);
    prepared = (struct prepared_generation){
        .request = {.stream = stream, .background = background, .own = {.state = record}},
        .prompt = {.ids = prompt_ids, .count = 3}};
    struct api_reply *reply =
        responses_format.reply_create(&(struct reply_config){.assets = &assets,
                                                             .prepared = &prepared,
                                                             .id = ID,
                                                             .request_id = "r",
                                                             .created_unix_s = 99,
                                                             .format_context = store});
    responses_format.reply_begin(reply, &out);
    return reply;
}

static void push(struct api_reply *reply, uint32_t token)
{
    assert_false(responses_format.reply_token(reply, 0, &(struct reply_token){.id = token}, &out));
}

/* Also frees the response. */
static void end(struct api_reply *reply)
{
    if (reply)
        responses_format.reply_destroy(reply);
    response_record_withdraw(prepared.request.own.state);
    response_record_release(prepared.request.own.state);
    text_buffer_fini(&out);
    assert_int_equal(response_store_bytes(store), 0);
}

/* The response as a fetch returns it now; NULL: not found. The caller frees. */
static cJSON *fetch(void)
{
    struct response_record *record = response_store_find(store, &nobody, ID);
    struct text_buffer text = {0};
    if (!record)
        return NULL;
    response_record_write(record, &text);
    cJSON *json = cJSON_ParseWithOpts(text.bytes, NULL, true);
    assert_non_null(json);
    text_buffer_fini(&text);
    response_record_release(record);
    return json;
}

static void assert_fetched(const char *status, const char *text)
{
    cJSON *json = fetch();
    assert_non_null(json);
    assert_string_equal(cJSON_GetObjectItem(json, "status")->valuestring, status);
    const cJSON *item = cJSON_GetObjectItem(json, "output")->child;
    const cJSON *part = item ? cJSON_GetObjectItem(item, "content")->child : NULL;
    assert_string_equal(part ? cJSON_GetObjectItem(part, "text")->valuestring : "", text);
    cJSON_Delete(json);
}

static void the_stored_response_equals_the_reply(void **state)
{
    (void)state;
    struct api_reply *reply = begin(false, false);
    assert_int_equal(out.length, 0);
    assert_fetched("in_progress", "");
    push(reply, TINY_HE);
    push(reply, TINY_LL);
    responses_format.reply_choice_end(reply, 0, FINISH_STOP_TOKEN, (struct cached_prompt){2, 1},
                                      &out);
    responses_format.reply_end(reply, &out);
    assert_fetched("completed", "hell");
    assert_non_null(strstr(out.bytes, "\"usage\":{\"input_tokens\":3,\"input_tokens_details\":"
                                      "{\"cached_tokens\":2,\"cached_images\":1,"
                                      "\"cache_write_tokens\":0},"
                                      "\"output_tokens\":2,\"output_tokens_details\":"
                                      "{\"reasoning_tokens\":0},\"total_tokens\":5}"));
    cJSON *stored = fetch(), *sent = cJSON_ParseWithOpts(out.bytes, NULL, true);
    assert_true(cJSON_Compare(stored, sent, true));
    cJSON_Delete(stored);
    cJSON_Delete(sent);
    end(reply);
}

static void a_limit_makes_it_incomplete(void **state)
{
    (void)state;
    struct api_reply *reply = begin(true, false);
    push(reply, TINY_HE);
    responses_format.reply_choice_end(reply, 0, FINISH_LENGTH, (struct cached_prompt){0}, &out);
    responses_format.reply_end(reply, &out);
    assert_fetched("incomplete", "he");
    assert_non_null(strstr(out.bytes, "event: response.incomplete\n"));
    assert_non_null(strstr(out.bytes, "\"incomplete_details\":{\"reason\":\"max_output_tokens\"}"));
    assert_null(strstr(out.bytes, "[DONE]"));
    end(reply);
}

static void a_background_response_is_queued_first(void **state)
{
    (void)state;
    struct api_reply *reply = begin(false, true);
    cJSON *json = cJSON_ParseWithOpts(out.bytes, NULL, true);
    assert_string_equal(cJSON_GetObjectItem(json, "status")->valuestring, "queued");
    cJSON_Delete(json);
    text_buffer_clear(&out);
    assert_fetched("queued", "");
    push(reply, TINY_HE);
    assert_fetched("in_progress", "");
    responses_format.reply_choice_end(reply, 0, FINISH_STOP_TOKEN, (struct cached_prompt){0}, &out);
    responses_format.reply_end(reply, &out);
    assert_int_equal(out.length, 0);
    assert_fetched("completed", "he");
    end(reply);
}

static void a_background_stream_reports_in_progress(void **state)
{
    (void)state;
    struct api_reply *reply = begin(true, true);
    assert_non_null(strstr(out.bytes, "event: response.queued\n"));
    assert_null(strstr(out.bytes, "event: response.in_progress\n"));
    push(reply, TINY_HE);
    assert_non_null(strstr(out.bytes, "event: response.in_progress\n"));
    responses_format.reply_choice_end(reply, 0, FINISH_STOP_TOKEN, (struct cached_prompt){0}, &out);
    responses_format.reply_end(reply, &out);
    assert_fetched("completed", "he");
    end(reply);
}

static void a_failed_response_has_status_failed(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        struct api_error error;
        struct api_reply *reply = begin(stream, true);
        push(reply, TINY_HE);
        (void)api_error_set(&error, RESULT_TIMED_OUT, 504, "deadline_exceeded", "too late");
        responses_format.reply_fail(reply, &error, &out);
        assert_fetched("failed", "he");
        cJSON *json = fetch();
        const cJSON *shown = cJSON_GetObjectItem(json, "error");
        assert_string_equal(cJSON_GetObjectItem(shown, "code")->valuestring, "server_error");
        assert_string_equal(cJSON_GetObjectItem(shown, "message")->valuestring, "too late");
        cJSON_Delete(json);
        if (stream) {
            const char *told = strstr(out.bytes, "event: error\n");
            assert_non_null(told);
            assert_non_null(strstr(told, "event: response.failed\n"));
        }
        end(reply);
    }
}

static void a_cancelled_response_keeps_its_output(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        struct api_reply *reply = begin(stream, false);
        push(reply, TINY_HE);
        responses_format.reply_cancel(reply, &out);
        assert_fetched("cancelled", "he");
        assert_non_null(strstr(out.bytes, "\"status\":\"cancelled\""));
        end(reply);
    }
}

static void leaving_a_stream_cancels_its_response(void **state)
{
    (void)state;
    struct api_reply *reply = begin(true, false);
    push(reply, TINY_HE);
    responses_format.reply_destroy(reply);
    assert_fetched("cancelled", "he");
    end(NULL);
}

static void a_response_without_a_known_id_is_dropped(void **state)
{
    (void)state;
    struct api_reply *reply = begin(false, false);
    push(reply, TINY_HE);
    responses_format.reply_destroy(reply);
    assert_null(fetch());
    end(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stored_response_equals_the_reply),
        cmocka_unit_test(a_limit_makes_it_incomplete),
        cmocka_unit_test(a_background_response_is_queued_first),
        cmocka_unit_test(a_background_stream_reports_in_progress),
        cmocka_unit_test(a_failed_response_has_status_failed),
        cmocka_unit_test(a_cancelled_response_keeps_its_output),
        cmocka_unit_test(leaving_a_stream_cancels_its_response),
        cmocka_unit_test(a_response_without_a_known_id_is_dropped),
    };
    return cmocka_run_group_tests(tests, open_assets, close_assets);
}
