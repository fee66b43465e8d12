/*
 * Small JSON replies.
 *
 * /health reports that the process and its loop run; /ready that a worker is ready to run requests.
 * They differ while the model loads, while a worker restarts and during a drain: load balancers ask
 * /ready, watchdogs /health. With --health-needs-ready both are the same.
 */
#include "frontend/serve/routes/status_routes.h"

#include "frontend/api/openapi_document.h"
#include "frontend/base/shoal_version.h"
#include "frontend/http/http_reply.h"
#include "frontend/serve/engine/chat_engine.h"
#include "frontend/serve/engine/engine_status.h"
#include "frontend/serve/routes/status_report.h"

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
    bool healthy = !context->health_needs_ready || engine_status_is_serving(engine);
    http_reply_json(exchange, healthy ? 200 : 503, &body);
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

void status_routes_version(const struct route_context *context, struct http_exchange *exchange)
{
    (void)context;
    struct text_buffer body = {0};
    text_buffer_append_text(&body, "{\"version\":\"" SHOAL_VERSION "\"}");
    http_reply_json(exchange, 200, &body);
}
