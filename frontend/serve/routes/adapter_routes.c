/*
 * A load is answered when the workers have read the adapter; if the client leaves before, the load goes on.
 */
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/adapter_request.h"
#include "frontend/http/http_reply.h"
#include "frontend/serve/engine/adapter_changes.h"
#include "frontend/serve/engine/chat_engine.h"
#include "frontend/serve/routes/model_choice.h"
#include "frontend/serve/routes/route_body.h"
#include "frontend/serve/routes/route_replies.h"
#include "proto/must.h"

struct load_call {
    struct http_exchange *exchange;
    struct adapter_load *load;
    char name[LIMIT_ADAPTER_NAME_BYTES];
};

static void reply_success(struct http_exchange *exchange, const char *name, const char *what)
{
    struct text_buffer text = {0};
    text_buffer_append_format(&text, "Success: LoRA adapter '%s' %s successfully.", name, what);
    if (text.failed)
        http_reply_abort(exchange);
    else
        http_reply_whole(exchange, 200, "text/plain", text.bytes, text.length);
    text_buffer_fini(&text);
}

static void on_loaded(void *context, const struct api_error *error)
{
    struct load_call *call = context;
    if (error)
        http_reply_error(call->exchange, error);
    else
        reply_success(call->exchange, call->name, "added");
    free(call);
}

static void on_gone(void *context)
{
    struct load_call *call = context;
    adapter_changes_forget(call->load);
    free(call);
}

/* NULL after an error reply. */
static struct chat_engine *engine_of(const struct route_context *context,
                                     struct http_exchange *exchange)
{
    struct api_error error;
    struct chat_engine *engine =
        context->options->adapter_directory ? model_choice_engine(context, exchange) : NULL;
    if (!context->options->adapter_directory) {
        (void)api_error_set(&error, RESULT_UNSUPPORTED, 403, "adapter_loading_disabled",
                            "adapters are loaded at run time by servers with --lora-dir only");
        http_reply_error(exchange, &error);
    } else if (engine && chat_engine_check_ready(engine, &error) != RESULT_OK) {
        http_reply_error(exchange, &error);
        return NULL;
    }
    return engine;
}

static enum result load(struct chat_engine *engine, struct load_call *call, const char *body,
                        size_t bytes, struct api_error *error)
{
    struct adapter_request *request = must_alloc(1, sizeof *request);
    enum result result =
        adapter_request_parse_load(chat_engine_assets(engine), body, bytes, request, error);
    if (result == RESULT_OK) {
        memcpy(call->name, request->name, sizeof call->name);
        result =
            adapter_changes_load(chat_engine_adapter_changes(engine), request->name, request->path,
                                 request->replaces, on_loaded, call, &call->load, error);
    }
    free(request);
    return result;
}

void adapter_routes_load(const struct route_context *context, struct http_exchange *exchange)
{
    struct chat_engine *engine = engine_of(context, exchange);
    struct api_error error;
    size_t bytes = 0;
    if (!engine)
        return;
    struct load_call *call = must_alloc(1, sizeof *call);
    call->exchange = exchange;
    char *body = route_body_take(exchange, &bytes, &error);
    if (body && load(engine, call, body, bytes, &error) == RESULT_OK) {
        http_exchange_on_gone(exchange, on_gone, call);
    } else {
        http_reply_error(exchange, &error);
        free(call);
    }
    free(body);
}

void adapter_routes_unload(const struct route_context *context, struct http_exchange *exchange)
{
    struct chat_engine *engine = engine_of(context, exchange);
    struct adapter_request *request = must_alloc(1, sizeof *request);
    struct api_error error;
    size_t bytes = 0;
    char *body = engine ? route_body_take(exchange, &bytes, &error) : NULL;
    if (body && adapter_request_parse_unload(body, bytes, request, &error) == RESULT_OK &&
        adapter_changes_unload(chat_engine_adapter_changes(engine), request->name, &error) ==
            RESULT_OK)
        reply_success(exchange, request->name, "removed");
    else if (engine)
        http_reply_error(exchange, &error);
    free(body);
    free(request);
}
