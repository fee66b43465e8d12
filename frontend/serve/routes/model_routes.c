/*
 * One object for both kinds of clients: OpenAI's members (and vLLM's max_model_len), then those of
 * Anthropic's ModelInfo. Every name of the model is an entry of the list, and
 * every adapter, with vLLM's root and parent.
 */
#include "frontend/serve/routes/route_replies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frontend/assets/adapter_set.h"
#include "frontend/assets/vision_assets.h"
#include "frontend/base/hex_digit.h"
#include "frontend/http/http_reply.h"
#include "frontend/prompt/chat_template.h"
#include "frontend/serve/models/model_loading.h"
#include "frontend/serve/routes/model_choice.h"
#include "proto/must.h"

/* True if the chat template reads `name`. */
static bool template_reads(const struct model_assets *assets, const char *name)
{
    size_t bytes;
    return assets->chat_template &&
           strstr(chat_template_source(assets->chat_template, &bytes), name) != NULL;
}

/* Anthropic's capabilities: what requests may use, not how well the model does it. */
static void write_capabilities(const struct model_assets *assets, struct text_buffer *out)
{
    static const char no[] = "{\"supported\":false}", yes[] = "{\"supported\":true}";
    const char *thinking = assets->formats.reasoning ? yes : no;
    bool effort = template_reads(assets, "reasoning_effort");
    const char *level = effort ? yes : no;
    text_buffer_append_format(
        out,
        "{\"batch\":%s,\"citations\":%s,\"code_execution\":%s,\"context_management\":{"
        "\"supported\":true,\"clear_thinking_20251015\":%s,\"clear_tool_uses_20250919\":%s,"
        "\"compact_20260112\":%s},",
        no, no, no, yes, no, no);
    text_buffer_append_format(out,
                              "\"effort\":{\"supported\":%s,\"low\":%s,\"medium\":%s,\"high\":%s,"
                              "\"xhigh\":%s,\"max\":%s},\"image_input\":%s,\"pdf_input\":%s,",
                              effort ? "true" : "false", level, level, level, level, level,
                              vision_assets_sees(assets->vision) ? yes : no, no);
    text_buffer_append_format(out,
                              "\"server_tools\":{\"supported\":false,\"code_execution\":%s,"
                              "\"web_search\":%s},\"structured_outputs\":%s,",
                              no, no, yes);
    text_buffer_append_format(out,
                              "\"thinking\":{\"supported\":%s,\"types\":{\"adaptive\":%s,"
                              "\"between_tools\":%s,\"disabled\":%s,\"enabled\":%s}}}",
                              assets->formats.reasoning ? "true" : "false", yes, no, yes, thinking);
}

/* `adapter`: of that name; NULL: the model itself. */
static void write_model(const struct model_assets *assets, const char *id,
                        const struct adapter *adapter, struct text_buffer *out)
{
    char created[32] = "1970-01-01T00:00:00Z";
    time_t created_s = (time_t)assets->created_unix_s;
    struct tm utc;
    if (gmtime_r(&created_s, &utc))
        strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &utc);
    text_buffer_append_text(out, "{\"id\":");
    text_buffer_append_json_string(out, id, strlen(id));
    text_buffer_append_format(
        out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"shoal\",\"max_model_len\":%u,",
        (long long)assets->created_unix_s, assets->context_tokens);
    if (adapter) {
        text_buffer_append_text(out, "\"root\":");
        text_buffer_append_json_string(out, adapter->path, strlen(adapter->path));
        text_buffer_append_text(out, ",\"parent\":");
        text_buffer_append_json_string(out, assets->model_id, strlen(assets->model_id));
        text_buffer_append_text(out, ",");
    }
    text_buffer_append_text(out, "\"type\":\"model\",\"display_name\":");
    text_buffer_append_json_string(out, id, strlen(id));
    text_buffer_append_format(out,
                              ",\"created_at\":\"%s\",\"lifecycle\":\"active\","
                              "\"deprecated_at\":null,\"retires_at\":null,\"line\":null,"
                              "\"max_input_tokens\":%u,\"max_tokens\":%u,\"vision\":%s,"
                              "\"capabilities\":",
                              created, assets->context_tokens, assets->context_tokens,
                              vision_assets_sees(assets->vision) ? "true" : "false");
    write_capabilities(assets, out);
    text_buffer_append_text(out, "}");
}

/* llama.cpp's state of a model, as a further member of the entry just written. */
static void append_status(const struct model *model, struct text_buffer *out)
{
    text_buffer_cut(out, out->length - 1); /* the brace */
    text_buffer_append_format(out, ",\"status\":{\"value\":\"%s\"",
                              model_state_name(model_state(model)));
    if (model_failure(model)[0]) {
        text_buffer_append_text(out, ",\"failed\":true,\"error\":");
        api_error_append_words(model_failure(model), out);
    }
    text_buffer_append_text(out, "}}");
}

/* A model that is not open. */
static void write_closed(const struct model *model, const char *id, struct text_buffer *out)
{
    text_buffer_append_text(out, "{\"id\":");
    text_buffer_append_json_string(out, id, strlen(id));
    text_buffer_append_format(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"shoal\"}",
                              (long long)model_modified_unix_s(model));
}

static void write_entry(const struct model_set *models, const struct model *model, const char *id,
                        struct text_buffer *out)
{
    const struct model_assets *assets =
        model_engine(model) ? chat_engine_assets(model_engine(model)) : NULL;
    if (assets)
        write_model(assets, id, adapter_set_find(assets->adapters, id), out);
    else
        write_closed(model, id, out);
    if (model_set_is_directory(models))
        append_status(model, out);
}

/* The model's name `index`, then those of its open adapters, then NULL. */
static const char *name_at(const struct model *model, uint32_t index)
{
    const struct option_texts *names = &model_options(model)->served_model_names;
    const struct model_assets *assets =
        model_engine(model) ? chat_engine_assets(model_engine(model)) : NULL;
    uint32_t own = names->count > 0 ? (uint32_t)names->count : 1;
    if (index < own)
        return names->count > 0 ? names->items[index] : assets->model_id;
    if (!assets || index - own >= adapter_set_count(assets->adapters))
        return NULL;
    return adapter_set_at(assets->adapters, index - own)->name;
}

/* `id` NULL: null, as Anthropic's list without entries has it. */
static void append_id(const char *id, struct text_buffer *out)
{
    if (id)
        text_buffer_append_json_string(out, id, strlen(id));
    else
        text_buffer_append_text(out, "null");
}

static void write_model_list(const struct model_set *models, struct text_buffer *out)
{
    const char *first = NULL, *last = NULL, *name;
    text_buffer_append_text(out, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < model_set_count(models); i++) {
        const struct model *model = model_set_at(models, i);
        for (uint32_t n = 0; (name = name_at(model, n)) != NULL; n++) {
            text_buffer_append_text(out, first ? "," : "");
            write_entry(models, model, name, out);
            first = first ? first : name;
            last = name;
        }
    }
    text_buffer_append_text(out, "],\"has_more\":false,\"first_id\":");
    append_id(first, out);
    text_buffer_append_text(out, ",\"last_id\":");
    append_id(last, out);
    text_buffer_append_text(out, "}");
}

/* Decodes a percent-encoded name. False: too long, or it holds a NUL. */
static bool name_decode(const char *encoded, char *name, size_t capacity)
{
    size_t bytes = 0;
    for (; *encoded; encoded++) {
        char c = *encoded;
        if (c == '%' && hex_digit_value(encoded[1]) >= 0 && hex_digit_value(encoded[2]) >= 0) {
            c = (char)(hex_digit_value(encoded[1]) * 16 + hex_digit_value(encoded[2]));
            encoded += 2;
        }
        if (c == '\0' || bytes + 1 >= capacity)
            return false;
        name[bytes++] = c;
    }
    name[bytes] = '\0';
    return true;
}

static void reply_unknown(const char *encoded, struct http_exchange *exchange)
{
    struct api_error error;
    (void)api_error_set(&error, RESULT_NOT_FOUND, 404, "model_not_found",
                        "the model '%.100s' does not exist; GET /v1/models lists them", encoded);
    snprintf(error.param, sizeof error.param, "model");
    http_reply_error(exchange, &error);
}

/* The model with this name; of the one model's names only those that it has. */
static const struct model *model_named(const struct model_set *models, const char *name)
{
    const struct model *model = model_set_find(models, name);
    if (!model || model_set_is_directory(models))
        return model;
    return model_assets_has_name(chat_engine_assets(model_engine(model)), name) ? model : NULL;
}

void model_routes_get(const struct route_context *context, struct http_exchange *exchange)
{
    const struct model_set *models = context->models;
    struct api_error error;
    if (!model_set_is_directory(models) &&
        !chat_engine_assets(model_engine(model_set_at(models, 0)))) {
        if (model_set_check_ready(models, &error) != RESULT_OK)
            http_reply_error(exchange, &error);
        return;
    }
    char name[MODEL_NAME_BYTES];
    const char *encoded = strstr(exchange->request->path, "/models/");
    struct text_buffer body = {0};
    if (!encoded) {
        write_model_list(models, &body);
        http_reply_json(exchange, 200, &body);
        return;
    }
    encoded += strlen("/models/");
    const struct model *model =
        name_decode(encoded, name, sizeof name) ? model_named(models, name) : NULL;
    if (!model) {
        reply_unknown(encoded, exchange);
        return;
    }
    write_entry(models, model, name, &body);
    http_reply_json(exchange, 200, &body);
}

/* The model that the body names; NULL after an error reply. */
static struct model *model_of_body(const struct route_context *context,
                                   struct http_exchange *exchange)
{
    struct prepare_input input = {.coding = http_exchange_coding(exchange)};
    struct api_error error;
    if (!model_set_is_directory(context->models)) {
        (void)api_error_invalid(&error, "",
                                "this server has one model, given with --model; only "
                                "those of --models-dir are loaded and unloaded");
        http_reply_error(exchange, &error);
        return NULL;
    }
    input.body = http_exchange_take_body(exchange, &input.body_bytes);
    if (!input.body)
        input.body = must_strdup("");
    struct model *model = model_choice_of_body(context->models, &input, &error);
    free(input.body);
    if (!model)
        http_reply_error(exchange, &error);
    return model;
}

static void reply_success(struct http_exchange *exchange)
{
    struct text_buffer body = {0};
    text_buffer_append_text(&body, "{\"success\":true}");
    http_reply_json(exchange, 200, &body);
}

void model_routes_load(const struct route_context *context, struct http_exchange *exchange)
{
    struct model *model = model_of_body(context, exchange);
    struct api_error error;
    if (model && model_load(model, &error) == RESULT_OK)
        reply_success(exchange);
    else if (model)
        http_reply_error(exchange, &error);
}

void model_routes_unload(const struct route_context *context, struct http_exchange *exchange)
{
    struct model *model = model_of_body(context, exchange);
    struct api_error error;
    if (model && model_unload(model, &error) == RESULT_OK)
        reply_success(exchange);
    else if (model)
        http_reply_error(exchange, &error);
}
