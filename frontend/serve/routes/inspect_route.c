/*
 * One inspection over HTTP: the body goes to a preparation thread, its answer to the client.
 *
 * It needs the model's assets but no worker. The number of inspections in progress is limited; if a
 * client leaves, its job is dropped.
 */
#include "frontend/serve/routes/inspect_route.h"

#include <stdlib.h>

#include "frontend/http/http_reply.h"
#include "proto/must.h"

struct inspect_call {
    struct inspect_route *route;
    struct http_exchange *exchange;
    struct prepare_job *job;
};

struct inspect_route {
    struct chat_engine *engine;
    uint32_t calls;
};

static void call_destroy(struct inspect_call *call)
{
    call->route->calls--;
    free(call);
}

static void on_gone(void *context)
{
    struct inspect_call *call = context;
    chat_engine_drop_inspection(call->route->engine, call->job);
    call_destroy(call);
}

static void reply_refusal(struct http_exchange *exchange, const struct api_error *error)
{
    if (error->code)
        http_exchange_note(exchange, LOG_TEXT("error", error->code));
    http_reply_error(exchange, error);
}

static void on_done(void *context, enum result result, const struct text_buffer *reply,
                    const struct api_error *error)
{
    struct inspect_call *call = context;
    if (result != RESULT_OK)
        reply_refusal(call->exchange, error);
    else if (reply->failed)
        http_reply_abort(call->exchange);
    else
        http_reply_whole(call->exchange, 200, "application/json", reply->bytes, reply->length);
    call_destroy(call);
}

void inspect_route_handle(struct inspect_route *route, struct http_exchange *exchange,
                          inspection *inspect, void *format_context)
{
    struct api_error error;
    struct prepare_input input = {.format_context = format_context,
                                  .client_key = exchange->client_key,
                                  .coding = http_exchange_coding(exchange),
                                  .most_body_bytes = exchange->request->max_body_bytes};
    struct inspect_call *call = must_alloc(1, sizeof *call);
    input.body = http_exchange_take_body(exchange, &input.body_bytes);
    if (!input.body)
        input.body = must_strdup("");
    call->route = route;
    call->exchange = exchange;
    route->calls++;
    enum result result;
    if (route->calls > LIMIT_INSPECTIONS) {
        free(input.body);
        result = api_error_set(&error, RESULT_FULL, 429, "queue_full",
                               "too many requests of this kind are in progress; try again");
        error.retry_after_s = 1;
    } else {
        result =
            chat_engine_inspect(route->engine, &input, inspect, on_done, call, &call->job, &error);
    }
    if (result == RESULT_OK) {
        http_exchange_on_gone(exchange, on_gone, call);
        return;
    }
    reply_refusal(exchange, &error);
    call_destroy(call);
}

struct inspect_route *inspect_route_create(struct chat_engine *engine)
{
    struct inspect_route *route = must_alloc(1, sizeof *route);
    route->engine = engine;
    return route;
}

void inspect_route_destroy(struct inspect_route *route)
{
    if (!route)
        return;
    must(route->calls == 0);
    free(route);
}
