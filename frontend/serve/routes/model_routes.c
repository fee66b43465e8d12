/*
 * One object for both kinds of clients: OpenAI's members (and vLLM's max_model_len), then those of
 * Anthropic's ModelInfo. Every name of the model is an entry of the list, and
 * every adapter, with vLLM's root and parent.
 */
#include "frontend/serve/routes/model_routes.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "frontend/assets/adapter_set.h"
#include "frontend/base/hex_digit.h"
#include "frontend/http/http_reply.h"
#include "frontend/prompt/chat_template.h"
#include "frontend/serve/engine/chat_engine.h"

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
                              assets->vision ? yes : no, no);
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
                              assets->vision ? "true" : "false");
    write_capabilities(assets, out);
    text_buffer_append_text(out, "}");
}

static void write_model_list(const struct model_assets *assets, struct text_buffer *out)
{
    const char *last = assets->model_id;
    text_buffer_append_text(out, "{\"object\":\"list\",\"data\":[");
    write_model(assets, assets->model_id, NULL, out);
    for (uint32_t i = 1; i < assets->name_count; i++) {
        last = assets->names[i];
        text_buffer_append_text(out, ",");
        write_model(assets, last, NULL, out);
    }
    for (uint32_t i = 0; i < adapter_set_count(assets->adapters); i++) {
        const struct adapter *adapter = adapter_set_at(assets->adapters, i);
        last = adapter->name;
        text_buffer_append_text(out, ",");
        write_model(assets, last, adapter, out);
    }
    text_buffer_append_text(out, "],\"has_more\":false,\"first_id\":");
    text_buffer_append_json_string(out, assets->model_id, strlen(assets->model_id));
    text_buffer_append_text(out, ",\"last_id\":");
    text_buffer_append_json_string(out, last, strlen(last));
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

void model_routes_get(const struct route_context *context, struct http_exchange *exchange)
{
    struct chat_engine *engine = context->engine;
    const struct model_assets *assets = chat_engine_assets(engine);
    struct api_error error;
    if (!assets) {
        if (chat_engine_check_ready(engine, &error) != RESULT_OK)
            http_reply_error(exchange, &error);
        return;
    }
    char name[sizeof assets->model_id];
    const char *encoded = strstr(exchange->request->path, "/models/");
    struct text_buffer body = {0};
    if (!encoded) {
        write_model_list(assets, &body);
    } else if (name_decode(encoded + strlen("/models/"), name, sizeof name) &&
               model_assets_has_name(assets, name)) {
        write_model(assets, name, adapter_set_find(assets->adapters, name), &body);
    } else {
        (void)api_error_set(&error, RESULT_NOT_FOUND, 404, "model_not_found",
                            "the model '%.100s' does not exist; this server has '%.100s'",
                            encoded + strlen("/models/"), assets->model_id);
        snprintf(error.param, sizeof error.param, "model");
        http_reply_error(exchange, &error);
        return;
    }
    http_reply_json(exchange, 200, &body);
}
