/*
 * The model is never unloaded: its time of expiry is far away, as Ollama's is with keep_alive -1.
 */
#include "frontend/serve/routes/ollama_routes.h"

#include "frontend/api/ollama/ollama_model.h"
#include "frontend/http/http_reply.h"
#include "frontend/serve/engine/chat_engine.h"
#include "frontend/serve/engine/engine_status.h"

/* Clients compare it with the version that brought what they need. */
#define OLLAMA_API_VERSION "0.12.6"

#define EXPIRES_NEVER "2318-01-01T00:00:00Z"

void ollama_routes_tags(const struct route_context *context, struct http_exchange *exchange)
{
    const struct model_assets *assets = chat_engine_assets(context->engine);
    struct text_buffer body = {0};
    struct api_error error;
    if (!assets) {
        if (chat_engine_check_ready(context->engine, &error) != RESULT_OK)
            http_reply_error(exchange, &error);
        return;
    }
    text_buffer_append_text(&body, "{\"models\":[{");
    ollama_model_write(assets, assets->model_id, &body);
    for (uint32_t i = 1; i < assets->name_count; i++) {
        text_buffer_append_text(&body, "},{");
        ollama_model_write(assets, assets->names[i], &body);
    }
    text_buffer_append_text(&body, "}]}");
    http_reply_json(exchange, 200, &body);
}

void ollama_routes_ps(const struct route_context *context, struct http_exchange *exchange)
{
    const struct model_assets *assets = chat_engine_assets(context->engine);
    struct engine_status status;
    struct text_buffer body = {0};
    engine_status_read(context->engine, &status);
    text_buffer_append_text(&body, "{\"models\":[");
    if (assets && engine_status_is_serving(context->engine)) {
        bool cpu = context->options->devices[0].kind == DEVICE_CPU;
        text_buffer_append_text(&body, "{");
        ollama_model_write(assets, assets->model_id, &body);
        text_buffer_append_format(
            &body,
            ",\"expires_at\":\"" EXPIRES_NEVER "\",\"size_vram\":%llu,\"context_length\":%u}",
            cpu ? 0 : (unsigned long long)status.weights_bytes, assets->context_tokens);
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
