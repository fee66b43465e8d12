/*
 * Small JSON replies.
 *
 * /health reports that the process and its loop run; /ready that a worker is ready to run requests.
 * They differ while the model loads, while a worker restarts and during a drain: load balancers ask
 * /ready, watchdogs /health.
 */
#include "frontend/serve/routes/status_routes.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "frontend/api/openapi_document.h"
#include "frontend/base/hex_digit.h"
#include "frontend/http/http_reply.h"
#include "frontend/serve/engine/chat_engine.h"
#include "frontend/serve/engine/engine_status.h"
#include "frontend/serve/routes/status_report.h"

/* --- models ---------------------------------------------------------------------------------- */

/* One object for both kinds of clients: OpenAI's members (and vLLM's max_model_len), then
 * Anthropic's. */
static void write_model(const struct model_assets *assets, struct text_buffer *out)
{
    const char *id = assets->model_id;
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
    text_buffer_append_text(out, "\"type\":\"model\",\"display_name\":");
    text_buffer_append_json_string(out, id, strlen(id));
    text_buffer_append_format(out,
                              ",\"created_at\":\"%s\",\"lifecycle\":\"active\","
                              "\"max_input_tokens\":%u,\"max_tokens\":%u,",
                              created, assets->context_tokens, assets->context_tokens);
    const char *vision = assets->vision ? "true" : "false";
    text_buffer_append_format(
        out, "\"vision\":%s,\"capabilities\":{\"image_input\":{\"supported\":%s}}}", vision,
        vision);
}

static void write_model_list(const struct model_assets *assets, struct text_buffer *out)
{
    const char *id = assets->model_id;
    text_buffer_append_text(out, "{\"object\":\"list\",\"data\":[");
    write_model(assets, out);
    text_buffer_append_text(out, "],\"has_more\":false,\"first_id\":");
    text_buffer_append_json_string(out, id, strlen(id));
    text_buffer_append_text(out, ",\"last_id\":");
    text_buffer_append_json_string(out, id, strlen(id));
    text_buffer_append_text(out, "}");
}

/* True if the percent-encoded `encoded` stands for `text`. */
static bool encoded_equals(const char *encoded, const char *text)
{
    for (; *encoded; encoded++, text++) {
        char c = *encoded;
        if (c == '%' && hex_digit_value(encoded[1]) >= 0 && hex_digit_value(encoded[2]) >= 0) {
            c = (char)(hex_digit_value(encoded[1]) * 16 + hex_digit_value(encoded[2]));
            encoded += 2;
        }
        if (c == '\0' || c != *text)
            return false;
    }
    return *text == '\0';
}

void status_routes_models(const struct route_context *context, struct http_exchange *exchange)
{
    struct chat_engine *engine = context->engine;
    const struct model_assets *assets = chat_engine_assets(engine);
    if (!assets) {
        struct api_error loading;
        if (chat_engine_check_ready(engine, &loading) != RESULT_OK)
            http_reply_error(exchange, &loading);
        return;
    }
    const char *path = exchange->request->path;
    const char *name = strstr(path, "/models/");
    struct text_buffer body = {0};
    if (name && !encoded_equals(name + strlen("/models/"), assets->model_id)) {
        struct api_error error;
        (void)api_error_set(&error, RESULT_NOT_FOUND, 404, "model_not_found",
                            "the model '%.100s' does not exist; this server has '%.100s'",
                            name + strlen("/models/"), assets->model_id);
        snprintf(error.param, sizeof error.param, "model");
        http_reply_error(exchange, &error);
        return;
    }
    if (name)
        write_model(assets, &body);
    else
        write_model_list(assets, &body);
    http_reply_json(exchange, 200, &body);
}

/* --- liveness -------------------------------------------------------------------------------- */

static void write_state(struct chat_engine *engine, struct text_buffer *body)
{
    struct engine_status status;
    engine_status_read(engine, &status);
    text_buffer_append_format(body,
                              "{\"status\":\"%s\",\"load_progress\":%.3f,\"live_requests\":%u,"
                              "\"worker_restarts\":%u}",
                              status.state, status.load_progress, status.live,
                              status.worker_restarts);
}

void status_routes_health(const struct route_context *context, struct http_exchange *exchange)
{
    struct chat_engine *engine = context->engine;
    struct text_buffer body = {0};
    write_state(engine, &body);
    http_reply_json(exchange, 200, &body);
}

void status_routes_ready(const struct route_context *context, struct http_exchange *exchange)
{
    struct chat_engine *engine = context->engine;
    struct text_buffer body = {0};
    write_state(engine, &body);
    http_reply_json(exchange, engine_status_is_serving(engine) ? 200 : 503, &body);
}

void status_routes_status(const struct route_context *context, struct http_exchange *exchange)
{
    struct chat_engine *engine = context->engine;
    struct text_buffer body = {0};
    status_report_write(engine, exchange->rights.admin ? NULL : &exchange->client_key, &body);
    http_reply_json(exchange, 200, &body);
}

void status_routes_openapi(const struct route_context *context, struct http_exchange *exchange)
{
    (void)context;
    size_t bytes;
    const char *document = openapi_document(&bytes);
    http_reply_whole(exchange, 200, "application/json", document, bytes);
}
