/*
 * Small JSON replies.
 *
 * /health reports that the process and its loop run; /ready that a worker is ready to run requests.
 * They differ while the model loads, while a worker restarts and during a drain: load balancers ask
 * /ready, watchdogs /health. With --health-needs-ready both are the same.
 */
#include "frontend/serve/routes/route_replies.h"

#include "frontend/api/openapi_document.h"
#include "frontend/base/shoal_version.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/query_text.h"
#include "frontend/serve/engine/chat_engine.h"
#include "frontend/serve/engine/engine_status.h"
#include "frontend/serve/routes/model_choice.h"
#include "frontend/serve/routes/status_report.h"

/* --- liveness -------------------------------------------------------------------------------- */

/* Of all models together. A directory of models is ready although none is loaded. */
static bool write_state(const struct model_set *models, struct text_buffer *body)
{
    struct engine_status status;
    struct api_error error;
    bool directory = model_set_is_directory(models);
    bool serves = directory && model_set_check_ready(models, &error) == RESULT_OK;
    bool reloading = false;
    const char *state = serves ? "ready" : "draining";
    double progress = 1;
    uint32_t live = model_set_retired_requests(models), restarts = 0, loaded = 0;
    for (uint32_t i = 0; i < model_set_count(models); i++) {
        const struct chat_engine *engine = model_engine(model_set_at(models, i));
        reloading |= model_is_reloading(model_set_at(models, i));
        if (!engine)
            continue;
        engine_status_read(engine, &status);
        live += status.live;
        restarts += status.worker_restarts;
        loaded += model_state(model_set_at(models, i)) == MODEL_READY;
        if (!directory) {
            state = status.state;
            progress = status.load_progress;
            serves = engine_status_is_serving(engine);
        }
    }
    text_buffer_append_format(body,
                              "{\"status\":\"%s\",\"load_progress\":%.3f,\"live_requests\":%u,"
                              "\"worker_restarts\":%u,\"reloading\":%s",
                              state, progress, live, restarts, reloading ? "true" : "false");
    if (directory)
        text_buffer_append_format(body, ",\"models\":%u,\"models_loaded\":%u",
                                  model_set_count(models), loaded);
    text_buffer_append_text(body, "}");
    return serves;
}

void status_routes_health(const struct route_context *context, struct http_exchange *exchange)
{
    struct text_buffer body = {0};
    bool serves = write_state(context->models, &body);
    http_reply_json(exchange, serves || !context->health_needs_ready ? 200 : 503, &body);
}

void status_routes_ready(const struct route_context *context, struct http_exchange *exchange)
{
    struct text_buffer body = {0};
    bool serves = write_state(context->models, &body);
    http_reply_json(exchange, serves ? 200 : 503, &body);
}

void status_routes_status(const struct route_context *context, struct http_exchange *exchange)
{
    const struct client_key *viewer = exchange->rights.admin ? NULL : &exchange->client_key;
    char name[8];
    struct text_buffer body = {0};
    if (model_set_is_directory(context->models) &&
        !query_text_find(exchange->request->query, "model", name, sizeof name)) {
        status_report_write_models(context->models, viewer, &body);
    } else {
        struct chat_engine *engine = model_choice_engine(context, exchange);
        if (!engine)
            return;
        status_report_write(engine, viewer, &body);
    }
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
