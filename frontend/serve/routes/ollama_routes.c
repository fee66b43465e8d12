/*
 * A model without an end of its time in memory expires far away, as Ollama's do with keep_alive -1.
 */
#include "frontend/serve/routes/route_replies.h"

#include <string.h>
#include <time.h>

#include "frontend/api/ollama/ollama_model.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/http/http_reply.h"
#include "frontend/serve/engine/chat_engine.h"
#include "frontend/serve/engine/engine_status.h"
#include "frontend/serve/models/model_set.h"

/* Clients compare it with the version that brought what they need. */
#define OLLAMA_API_VERSION "0.12.6"

#define EXPIRES_NEVER "2318-01-01T00:00:00Z"

/* A model of a directory that is not open: what its files tell. */
static void write_closed(const struct model *model, struct text_buffer *out)
{
    text_buffer_append_text(out, "\"name\":");
    text_buffer_append_json_string(out, model_name(model), strlen(model_name(model)));
    text_buffer_append_text(out, ",\"model\":");
    text_buffer_append_json_string(out, model_name(model), strlen(model_name(model)));
    text_buffer_append_format(out, ",\"size\":%llu", (unsigned long long)model_bytes(model));
}

static void write_names(const struct model *model, bool first, struct text_buffer *out)
{
    const struct model_assets *assets =
        model_engine(model) ? chat_engine_assets(model_engine(model)) : NULL;
    text_buffer_append_text(out, first ? "{" : ",{");
    if (assets)
        ollama_model_write(assets, assets->model_id, out);
    else
        write_closed(model, out);
    for (uint32_t i = 1; assets && i < assets->name_count; i++) {
        text_buffer_append_text(out, "},{");
        ollama_model_write(assets, assets->names[i], out);
    }
    text_buffer_append_text(out, "}");
}

void ollama_routes_tags(const struct route_context *context, struct http_exchange *exchange)
{
    struct text_buffer body = {0};
    struct api_error error;
    if (!model_set_is_directory(context->models) &&
        !chat_engine_assets(model_engine(model_set_at(context->models, 0)))) {
        if (model_set_check_ready(context->models, &error) != RESULT_OK)
            http_reply_error(exchange, &error);
        return;
    }
    text_buffer_append_text(&body, "{\"models\":[");
    for (uint32_t i = 0; i < model_set_count(context->models); i++)
        write_names(model_set_at(context->models, i), i == 0, &body);
    text_buffer_append_text(&body, "]}");
    http_reply_json(exchange, 200, &body);
}

static void write_expiry(const struct model *model, struct text_buffer *out)
{
    int64_t idle_ms = model_idle_limit_ms(model);
    char when[32];
    time_t end =
        time(NULL) + (time_t)((idle_ms - monotonic_clock_ms() + model_used_ms(model)) / 1000);
    struct tm utc;
    bool ends = idle_ms >= 0 && gmtime_r(&end, &utc) &&
                strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0;
    text_buffer_append_format(out, ",\"expires_at\":\"%s\"", ends ? when : EXPIRES_NEVER);
}

void ollama_routes_ps(const struct route_context *context, struct http_exchange *exchange)
{
    struct text_buffer body = {0};
    bool any = false;
    text_buffer_append_text(&body, "{\"models\":[");
    for (uint32_t i = 0; i < model_set_count(context->models); i++) {
        const struct model *model = model_set_at(context->models, i);
        struct chat_engine *engine = model_engine(model);
        const struct model_assets *assets = engine ? chat_engine_assets(engine) : NULL;
        struct engine_status status;
        if (!assets || !engine_status_is_serving(engine))
            continue;
        engine_status_read(engine, &status);
        bool cpu = device_set_kind(&model_options(model)->devices[0]) == DEVICE_CPU;
        text_buffer_append_text(&body, any ? ",{" : "{");
        ollama_model_write(assets, assets->model_id, &body);
        write_expiry(model, &body);
        text_buffer_append_format(&body, ",\"size_vram\":%llu,\"context_length\":%u}",
                                  cpu ? 0 : (unsigned long long)status.weights_bytes,
                                  assets->context_tokens);
        any = true;
    }
    text_buffer_append_text(&body, "]}");
    http_reply_json(exchange, 200, &body);
}

void ollama_routes_version(const struct route_context *context, struct http_exchange *exchange)
{
    (void)context;
    struct text_buffer body = {0};
    text_buffer_append_text(&body, "{\"version\":\"" OLLAMA_API_VERSION "\"}");
    http_reply_json(exchange, 200, &body);
}
