/*
 * A slot of llama.cpp is a place for one running request. Here that is one of the sequences that
 * the workers may compute at once; requests that wait have none. Requests move between places, so
 * `id` is only the place in this list and `id_task` the request's slot in the frontend's table.
 */
#include "frontend/serve/routes/route_replies.h"

#include <string.h>

#include "frontend/api/llama/llama_settings.h"
#include "frontend/assets/vision_assets.h"
#include "frontend/base/shoal_version.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/query_text.h"
#include "frontend/serve/engine/chat_engine.h"
#include "frontend/serve/engine/engine_status.h"
#include "frontend/serve/routes/model_choice.h"

static uint32_t total_slots(const struct options *options)
{
    return (uint32_t)options->workers * options_sequences_limit(options);
}

static void append_string(const char *text, struct text_buffer *out)
{
    text_buffer_append_json_string(out, text, strlen(text));
}

/* The assets, or NULL after an error reply. */
static const struct model_assets *assets_or_refuse(const struct chat_engine *engine,
                                                   struct http_exchange *exchange)
{
    const struct model_assets *assets = engine ? chat_engine_assets(engine) : NULL;
    struct api_error error;
    if (engine && !assets && chat_engine_check_ready(engine, &error) != RESULT_OK)
        http_reply_error(exchange, &error);
    return assets;
}

void llama_routes_props(const struct route_context *context, struct http_exchange *exchange)
{
    const struct chat_engine *engine = model_choice_engine(context, exchange);
    const struct model_assets *assets = assets_or_refuse(engine, exchange);
    struct text_buffer body = {0};
    size_t source_bytes;
    if (!assets)
        return;
    text_buffer_append_format(&body,
                              "{\"default_generation_settings\":{\"id\":0,\"id_task\":-1,"
                              "\"n_ctx\":%u,\"speculative\":false,\"is_processing\":false,"
                              "\"params\":",
                              assets->context_tokens);
    llama_settings_write_defaults(assets, context->options->request_seed, &body);
    text_buffer_append_format(
        &body, "},\"total_slots\":%u,\"model_alias\":", total_slots(context->options));
    append_string(assets->model_id, &body);
    text_buffer_append_text(&body, ",\"model_path\":");
    api_error_append_words(assets->path, &body);
    text_buffer_append_text(&body, ",\"chat_template\":");
    append_string(assets->chat_template ? chat_template_source(assets->chat_template, &source_bytes)
                                        : "",
                  &body);
    text_buffer_append_text(&body, ",\"bos_token\":");
    append_string(assets->bos_text, &body);
    text_buffer_append_text(&body, ",\"eos_token\":");
    append_string(assets->eos_text, &body);
    text_buffer_append_format(&body,
                              ",\"modalities\":{\"vision\":%s,\"audio\":%s},\"build_info\":"
                              "\"shoal-" SHOAL_VERSION "\"}",
                              vision_assets_sees(assets->vision) ? "true" : "false",
                              vision_assets_hears(assets->vision) ? "true" : "false");
    http_reply_json(exchange, 200, &body);
}

/* A running request, or with `request` NULL an idle slot. `shown`: with details. */
static void slot_write(const struct model_assets *assets, uint32_t id, bool in_use,
                       const struct request_status *request, const struct text_buffer *defaults,
                       struct text_buffer *out)
{
    text_buffer_append_format(
        out, "%s{\"id\":%u,\"id_task\":%d,\"n_ctx\":%u,\"speculative\":false,\"is_processing\":%s",
        id > 0 ? "," : "", id, request ? (int)request->id.slot : -1, assets->context_tokens,
        in_use ? "true" : "false");
    if (!in_use) {
        text_buffer_append_text(out, ",\"params\":");
        text_buffer_append(out, defaults->bytes, defaults->length);
    } else if (request) {
        text_buffer_append_format(
            out, ",\"n_prompt_tokens\":%llu,\"n_prompt_tokens_processed\":%llu,",
            (unsigned long long)request->prompt_tokens, (unsigned long long)request->prompt_done);
        text_buffer_append_format(out,
                                  "\"next_token\":{\"has_next_token\":true,\"n_remain\":%lld,"
                                  "\"n_decoded\":%llu}",
                                  (long long)request->max_new_tokens -
                                      (long long)request->generated_tokens,
                                  (unsigned long long)request->generated_tokens);
    }
    text_buffer_append_text(out, "}");
}

/* Returns the number of slots in use. */
static uint32_t slots_write(const struct route_context *context, const struct chat_engine *engine,
                            const struct http_exchange *exchange, const struct model_assets *assets,
                            struct text_buffer *out)
{
    uint32_t total = total_slots(context->options);
    uint32_t used = 0;
    struct text_buffer defaults = {0};
    llama_settings_write_defaults(assets, context->options->request_seed, &defaults);
    out->failed |= defaults.failed;
    text_buffer_append_text(out, "[");
    for (uint32_t slot = 0; !out->failed && slot < engine_status_slots(engine) && used < total;
         slot++) {
        struct request_status request;
        if (!engine_status_read_request(engine, slot, &request) || !request.has_worker)
            continue;
        bool shown = exchange->rights.admin || memcmp(&exchange->client_key, &request.client_key,
                                                      sizeof request.client_key) == 0;
        slot_write(assets, used++, true, shown ? &request : NULL, &defaults, out);
    }
    for (uint32_t i = used; !out->failed && i < total; i++)
        slot_write(assets, i, false, NULL, &defaults, out);
    text_buffer_append_text(out, "]");
    text_buffer_fini(&defaults);
    return used;
}

void llama_routes_slots(const struct route_context *context, struct http_exchange *exchange)
{
    const struct chat_engine *engine = model_choice_engine(context, exchange);
    const struct model_assets *assets = assets_or_refuse(engine, exchange);
    struct text_buffer body = {0};
    struct api_error error;
    char word[8];
    if (!assets)
        return;
    uint32_t used = slots_write(context, engine, exchange, assets, &body);
    if (used == total_slots(context->options) &&
        query_text_find(exchange->request->query, "fail_on_no_slot", word, sizeof word)) {
        text_buffer_fini(&body);
        (void)api_error_set(&error, RESULT_FULL, 503, "no_slot", "no slot is free");
        error.retry_after_s = 1;
        http_reply_error(exchange, &error);
        return;
    }
    http_reply_json(exchange, 200, &body);
}
