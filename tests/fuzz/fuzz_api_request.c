/*
 * Any bytes as the body of a request, against a small checkpoint. The first byte chooses the API:
 * c, m or r, and C, M or R for a checkpoint that accepts images. Must hold: a refusal is a complete
 * 4xx answer that is valid JSON in the API's shape; accepted values are in every range, and
 * preparing the request gives a prompt that fits. A request of the Responses API finds one stored
 * response to continue, and the response that it stores is valid JSON.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/chat/chat_format.h"
#include "frontend/api/generation/generation_prepare.h"
#include "frontend/api/messages/messages_error.h"
#include "frontend/api/messages/messages_format.h"
#include "frontend/api/responses/response_store.h"
#include "frontend/api/responses/responses_format.h"
#include "proto/must.h"
#include "tests/support/direct_reader.h"
#include "tests/support/tiny_tokenizer.h"
#include "tests/support/tiny_vision.h"

static int chat_error_write(const struct api_error *error, const char *request_id,
                            struct text_buffer *out)
{
    (void)request_id;
    api_error_write_json(error, out);
    return error->status;
}

/* A byte that is no API's letter stands for the first. */
static const struct api {
    uint8_t letter;
    const struct api_format *format;
    api_error_writer *write_error;
} apis[] = {
    {'c', &chat_format, chat_error_write},
    {'m', &messages_format, messages_error_write},
    {'r', &responses_format, chat_error_write},
};

static const char chatml[] =
    "{% for message in messages %}{{ '<|im_start|>' + message.role + (message.content or '') + "
    "'<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>' }}{% endif %}";

static struct model_assets *assets_open(void)
{
    static struct model_assets assets;
    if (assets.tokenizer)
        return &assets;
    size_t json_bytes;
    char *json = tiny_tokenizer_json(&json_bytes);
    assets = (struct model_assets){.model_id = "tiny",
                                   .bos_text = "",
                                   .eos_text = "<|im_end|>",
                                   .context_tokens = 256,
                                   .sampling = {NAN, NAN, NAN, NAN, UINT32_MAX}};
    must(tokenizer_open_json(json, json_bytes, &assets.tokenizer, NULL) == RESULT_OK);
    must(chat_template_open(chatml, strlen(chatml), &assets.chat_template, NULL) == RESULT_OK);
    free(json);
    return &assets;
}

/* With the response resp_01: "Hi." and the answer "Ho.". */
static struct response_store *store_open(void)
{
    static struct response_store *store;
    if (store)
        return store;
    store = response_store_create(1 << 20, 10);
    struct response_draft draft = {.kept = true};
    struct response_outcome outcome = {.status = RESPONSE_COMPLETED};
    struct response_items *const sides[] = {&draft.input, &outcome.output};
    static const char *const texts[] = {
        "{\"type\":\"message\",\"role\":\"user\",\"content\":\"Hi.\"}",
        "{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"Ho.\"}"};
    for (size_t i = 0; i < 2; i++) {
        response_items_begin(sides[i]);
        text_buffer_append_text(&sides[i]->text, texts[i]);
        response_items_end(sides[i], "msg_");
    }
    struct response_record *record;
    must(response_record_create(store, &draft, &record) == RESULT_OK);
    response_record_publish(record, "resp_01", 1);
    response_record_finish(record, &outcome);
    return store; /* with the reference: it is never forgotten */
}

static void check_record(struct response_record *record)
{
    struct text_buffer out = {0};
    response_record_write(record, &out);
    cJSON *json = cJSON_ParseWithLength(out.bytes, out.length);
    must(json != NULL);
    cJSON_Delete(json);
    const struct response_items *items = response_record_input(record);
    for (size_t i = 0; i < items->count; i++) {
        text_buffer_clear(&out);
        response_items_write(items, i, "resp_02", RESPONSE_INPUT, &out);
        json = cJSON_ParseWithLength(out.bytes, out.length);
        must(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(json, "id")));
        cJSON_Delete(json);
    }
    text_buffer_fini(&out);
}

static void check_refusal(const struct api *api, const struct api_error *error)
{
    must(error->status >= 400 && error->status < 500);
    must(error->type != NULL && error->message[0] != '\0');
    struct text_buffer out = {0};
    must(api->write_error(error, "r", &out) == error->status);
    cJSON *json = cJSON_ParseWithLength(out.bytes, out.length);
    must(json != NULL);
    cJSON_Delete(json);
    text_buffer_fini(&out);
}

static void check_accepted(const struct prepared_generation *prepared,
                           const struct model_assets *assets)
{
    const struct generation_request *request = &prepared->request;
    struct error_text words;
    must(sampling_params_check(&request->sampling, &words) == RESULT_OK);
    must(request->stop_count <= LIMIT_STOP_STRINGS);
    must(request->logit_bias_count <= LIMIT_LOGIT_BIAS);
    must(prepared->prompt.count > 0 && prepared->max_new_tokens > 0);
    must(prepared->prompt.count + prepared->max_new_tokens <= assets->context_tokens);
    for (size_t i = 0; i < prepared->prompt.count; i++)
        must(prepared->prompt.ids[i] < tokenizer_vocab_tokens(assets->tokenizer));
}

static const struct model_assets *vision_assets(void)
{
    static struct model_assets assets;
    if (!assets.vision)
        tiny_vision_open(&assets, (struct media_policy){.most_bytes = 1 << 16});
    return &assets;
}

static void check_images(const struct prepared_generation *prepared)
{
    struct error_text words;
    if (prepared->images)
        must(image_record_check(image_set_part(prepared->images), image_set_count(prepared->images),
                                (uint32_t)prepared->prompt.count, image_set_bytes(prepared->images),
                                &words) == RESULT_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    bool takes_images = count > 0 && data[0] >= 'A' && data[0] <= 'Z';
    const struct model_assets *assets = takes_images ? vision_assets() : assets_open();
    const struct parse_context context = {.assets = assets,
                                          .random_seed = 1,
                                          .format_context = store_open(),
                                          .reader = &direct_reader};
    struct prepared_generation prepared;
    struct api_error error;
    const struct api *api = &apis[0];
    if (count == 0)
        return 0;
    for (size_t i = 0; i < sizeof apis / sizeof apis[0]; i++) {
        if (apis[i].letter == (takes_images ? data[0] + ('a' - 'A') : data[0]))
            api = &apis[i];
    }
    count--;
    char *body = malloc(count + 1); /* exact, so that reading behind it is noticed */
    memcpy(body, data + 1, count);
    if (generation_prepare(api->format, &context, body, count, 0, &prepared, &error) == RESULT_OK) {
        check_accepted(&prepared, assets);
        check_images(&prepared);
        if (api->letter == 'r')
            check_record(prepared.request.own.state);
        prepared_generation_fini(&prepared);
    } else {
        check_refusal(api, &error);
    }
    free(body);
    return 0;
}
