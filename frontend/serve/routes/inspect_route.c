/*
 * One inspection over HTTP: the body goes to a preparation thread, its answer to the client.
 *
 * It needs the model's assets but no worker. The number of inspections in progress is limited; if a
 * client leaves, its job is dropped.
 */
#include "frontend/serve/routes/inspect_route.h"

#include <stdlib.h>

#include "frontend/http/http_reply.h"
#include "frontend/serve/models/model_instance.h"
#include "frontend/serve/models/model_wait.h"
#include "frontend/serve/routes/model_choice.h"
#include "proto/must.h"

struct inspect_call {
    struct inspect_route *route;
    struct http_exchange *exchange;
    inspection *inspect;
    struct model *model;             /* NULL until it is known; not read once there is a job */
    struct model_instance *instance; /* while there is a job */
    struct model_wait wait;          /* until the model is loaded */
    struct prepare_input input;      /* while it waits */
    struct prepare_job *job;         /* NULL while it waits */
};

struct inspect_route {
    struct model_set *models;
    uint32_t calls;
};

static void call_destroy(struct inspect_call *call)
{
    model_wait_cancel(&call->wait);
    if (call->instance)
        model_instance_release(call->instance);
    free(call->input.body);
    call->route->calls--;
    free(call);
}

static void on_gone(void *context)
{
    struct inspect_call *call = context;
    if (call->job)
        chat_engine_drop_inspection(model_instance_engine(call->instance), call->job);
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

/* Hands the input over to the model's threads. */
static enum result call_begin(struct inspect_call *call, struct api_error *error)
{
    struct prepare_input input = call->input;
    call->input.body = NULL;
    enum result result = chat_engine_inspect(model_engine(call->model), &input, call->inspect,
                                             on_done, call, &call->job, error);
    if (result == RESULT_OK)
        call->instance = model_use(call->model);
    return result;
}

static void on_model(void *context, const struct api_error *error)
{
    struct inspect_call *call = context;
    struct api_error refusal;
    if (!error && call_begin(call, &refusal) == RESULT_OK)
        return;
    reply_refusal(call->exchange, error ? error : &refusal);
    call_destroy(call);
}

static enum result call_start(struct inspect_call *call, struct api_error *error)
{
    if (call->route->calls > LIMIT_INSPECTIONS) {
        (void)api_error_set(error, RESULT_FULL, 429, "queue_full",
                            "too many requests of this kind are in progress; try again");
        error->retry_after_s = 1;
        return RESULT_FULL;
    }
    call->model = model_choice_of_body(call->route->models, &call->input, error);
    if (!call->model)
        return RESULT_NOT_FOUND;
    switch (model_await(call->model, &call->wait, error)) {
    case MODEL_IS_READY: return call_begin(call, error);
    case MODEL_IS_AWAITED: return RESULT_OK;
    case MODEL_IS_REFUSED: break;
    }
    return RESULT_FULL;
}

void inspect_route_handle(struct inspect_route *route, struct http_exchange *exchange,
                          inspection *inspect, void *format_context)
{
    struct api_error error;
    struct inspect_call *call = must_alloc(1, sizeof *call);
    call->route = route;
    call->exchange = exchange;
    call->inspect = inspect;
    call->wait = (struct model_wait){.context = call, .done = on_model};
    call->input = (struct prepare_input){.format_context = format_context,
                                         .client_key = exchange->client_key,
                                         .coding = http_exchange_coding(exchange),
                                         .most_body_bytes = exchange->request->max_body_bytes};
    call->input.body = http_exchange_take_body(exchange, &call->input.body_bytes);
    if (!call->input.body)
        call->input.body = must_strdup("");
    route->calls++;
    if (call_start(call, &error) == RESULT_OK) {
        http_exchange_on_gone(exchange, on_gone, call);
        return;
    }
    reply_refusal(exchange, &error);
    call_destroy(call);
}

struct inspect_route *inspect_route_create(struct model_set *models)
{
    struct inspect_route *route = must_alloc(1, sizeof *route);
    route->models = models;
    return route;
}

void inspect_route_destroy(struct inspect_route *route)
{
    if (!route)
        return;
    must(route->calls == 0);
    free(route);
}
