/*
 * Small JSON and Prometheus answers.
 *
 * /health says that the process and its loop live; /ready says that a request would be admitted.
 * They differ while the model loads, while a worker restarts and while the server drains, so a load
 * balancer asks /ready and a watchdog /health. Metrics carry vLLM's names where the meaning is the
 * same.
 */
#include "frontend/serve/status_routes.h"

#include <stdio.h>
#include <string.h>

static void reply_json(struct http_exchange *exchange, int status, struct text_buffer *body)
{
    if (body->failed)
        http_exchange_abort(exchange);
    else
        http_exchange_reply(exchange, status, "application/json", body->bytes, body->length);
    text_buffer_fini(body);
}

/* --- models ---------------------------------------------------------------------------------- */

static void write_model(const struct model_assets *assets, struct text_buffer *out)
{
    text_buffer_append_text(out, "{\"id\":");
    text_buffer_append_json_string(out, assets->model_id, strlen(assets->model_id));
    text_buffer_append_format(
        out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"shoal\",\"max_model_len\":%u}",
        (long long)assets->created_unix_s, assets->context_tokens);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Whether the percent-encoded `encoded` stands for `text`. */
static bool encoded_equals(const char *encoded, const char *text)
{
    for (; *encoded; encoded++, text++) {
        char c = *encoded;
        if (c == '%' && hex_value(encoded[1]) >= 0 && hex_value(encoded[2]) >= 0) {
            c = (char)(hex_value(encoded[1]) * 16 + hex_value(encoded[2]));
            encoded += 2;
        }
        if (c == '\0' || c != *text)
            return false;
    }
    return *text == '\0';
}

static void reply_loading(struct chat_engine *engine, struct http_exchange *exchange)
{
    struct api_error error;
    if (chat_engine_check_ready(engine, &error) != RESULT_OK)
        http_exchange_reply_error(exchange, &error);
}

void status_routes_models(struct chat_engine *engine, struct http_exchange *exchange)
{
    const struct model_assets *assets = chat_engine_assets(engine);
    if (!assets) {
        reply_loading(engine, exchange);
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
        http_exchange_reply_error(exchange, &error);
        return;
    }
    if (!name)
        text_buffer_append_text(&body, "{\"object\":\"list\",\"data\":[");
    write_model(assets, &body);
    if (!name)
        text_buffer_append_text(&body, "]}");
    reply_json(exchange, 200, &body);
}

/* --- liveness -------------------------------------------------------------------------------- */

static void write_state(struct chat_engine *engine, struct text_buffer *body)
{
    struct chat_engine_status status;
    chat_engine_read_status(engine, &status);
    text_buffer_append_format(body,
                              "{\"status\":\"%s\",\"load_progress\":%.3f,\"live_requests\":%u,"
                              "\"worker_restarts\":%u}",
                              status.state, status.load_progress, status.live,
                              status.worker_restarts);
}

void status_routes_health(struct chat_engine *engine, struct http_exchange *exchange)
{
    struct text_buffer body = {0};
    write_state(engine, &body);
    reply_json(exchange, 200, &body);
}

void status_routes_ready(struct chat_engine *engine, struct http_exchange *exchange)
{
    struct text_buffer body = {0};
    struct api_error error;
    write_state(engine, &body);
    reply_json(exchange, chat_engine_check_ready(engine, &error) == RESULT_OK ? 200 : 503, &body);
}

/* --- metrics --------------------------------------------------------------------------------- */

static void write_gauges(const struct chat_engine_status *status, uint32_t connections,
                         const char *labels, struct text_buffer *out)
{
    double cache_used = status->kv_blocks_total
                            ? (double)status->kv_blocks_used / (double)status->kv_blocks_total
                            : 0;
    const struct {
        const char *name;
        const char *type;
        const char *help;
        double value;
    } values[] = {
        {"vllm:num_requests_running", "gauge", "Requests that the worker computes.",
         status->worker_running},
        {"vllm:num_requests_waiting", "gauge", "Requests admitted and not yet computed.",
         status->preparing + status->waiting + status->worker_waiting},
        {"vllm:kv_cache_usage_perc", "gauge", "Part of the KV cache in use, 0 to 1.", cache_used},
        {"vllm:num_preemptions_total", "counter", "Sequences set back for lack of KV blocks.",
         (double)status->worker_preemptions},
        {"shoal_live_requests", "gauge", "Slots of the request table in use.", status->live},
        {"shoal_requests_preparing", "gauge", "Requests being parsed and tokenized.",
         status->preparing},
        {"shoal_requests_with_worker", "gauge", "Requests handed to the worker.",
         status->with_worker},
        {"shoal_kv_blocks_used", "gauge", "KV blocks in use.", (double)status->kv_blocks_used},
        {"shoal_kv_blocks_total", "gauge", "KV blocks.", (double)status->kv_blocks_total},
        {"shoal_slab_used_bytes", "gauge", "Shared memory that holds prompts.",
         (double)status->slab_used_bytes},
        {"shoal_worker_steps_total", "counter", "Steps of the present worker.",
         (double)status->worker_steps},
        {"shoal_worker_rejected_records_total", "counter",
         "Submit records that the present worker refused.",
         (double)status->worker_rejected_records},
        {"shoal_weights_bytes", "gauge", "Memory of the weights.", (double)status->weights_bytes},
        {"shoal_load_progress", "gauge", "How far the model is loaded, 0 to 1.",
         status->load_progress},
        {"shoal_connections", "gauge", "Open client connections.", connections},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        serve_metrics_write_value(out, values[i].name, values[i].type, values[i].help, labels,
                                  values[i].value);
}

void status_routes_metrics(struct chat_engine *engine, uint32_t connections,
                           struct http_exchange *exchange)
{
    struct chat_engine_status status;
    chat_engine_read_status(engine, &status);
    const struct model_assets *assets = chat_engine_assets(engine);
    char labels[300];
    snprintf(labels, sizeof labels, "model_name=\"%s\"", assets ? assets->model_id : "");
    struct text_buffer body = {0};
    write_gauges(&status, connections, labels, &body);
    serve_metrics_write(chat_engine_metrics(engine), labels, &body);
    if (body.failed)
        http_exchange_abort(exchange);
    else
        http_exchange_reply(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", body.bytes,
                            body.length);
    text_buffer_fini(&body);
}
