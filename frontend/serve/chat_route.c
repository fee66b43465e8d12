/*
 * One chat request over HTTP.
 *
 * The order is: ready? room? (503 and 429, before a byte of the body is looked at) -> prepare ->
 * for a stream, headers and the role chunk at once, so that the client knows it was understood ->
 * tokens -> end. Until the headers of a stream are out, and for a reply that is not streamed
 * always, an error is an HTTP status; afterwards it is an event in the stream. Whichever side ends
 * first, the other is told: the client's departure cancels the request, a reader that is too slow
 * is cut and cancelled, and every stream that is not cut ends with a terminal event.
 *
 * Silent streams get a comment from one timer that runs only while there are streams.
 */
#include "frontend/serve/chat_route.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "frontend/api/chat_reply.h"
#include "frontend/http/sse_stream.h"
#include "frontend/serve/monotonic_clock.h"
#include "proto/must.h"

#define KEEP_ALIVE_LOOK_MS 500

struct chat_call {
    struct chat_call *next;
    struct chat_call **link; /* what points at this call */
    struct chat_route *route;
    struct http_exchange *exchange;
    struct live_request *request;
    struct chat_reply *reply; /* NULL until the prompt is prepared */
    bool streams;
    struct sse_stream stream;
    struct text_buffer out;
    char id[48];
};

struct chat_route {
    struct chat_engine *engine;
    const struct options *options;
    struct event *timer;
    struct chat_call *calls;
};

static uint64_t random_number(void)
{
    uint64_t number = 0;
    must(getrandom(&number, sizeof number, 0) == sizeof number);
    return number;
}

static struct chat_call *call_create(struct chat_route *route, struct http_exchange *exchange)
{
    struct chat_call *call = must_alloc(1, sizeof *call);
    call->route = route;
    call->exchange = exchange;
    snprintf(call->id, sizeof call->id, "chatcmpl-%016llx%08x", (unsigned long long)random_number(),
             (unsigned)(random_number() >> 32));
    call->next = route->calls;
    call->link = &route->calls;
    if (call->next)
        call->next->link = &call->next;
    route->calls = call;
    return call;
}

static void call_destroy(struct chat_call *call)
{
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    chat_reply_destroy(call->reply);
    text_buffer_fini(&call->out);
    free(call);
}

/* The client left, or was cut. */
static void call_cancel(struct chat_call *call)
{
    struct chat_engine *engine = call->route->engine;
    struct live_request *request = call->request;
    call_destroy(call);
    chat_engine_cancel(engine, request);
}

static void on_gone(void *context)
{
    call_cancel(context);
}

/* Sends what is in `out`. False: the stream could not take it and is cut. */
static bool stream_flush(struct chat_call *call)
{
    bool good =
        !call->out.failed && sse_stream_send(&call->stream, call->out.bytes, call->out.length,
                                             monotonic_clock_ms()) == RESULT_OK;
    text_buffer_clear(&call->out);
    if (!good)
        sse_stream_abort(&call->stream);
    return good;
}

/* --- what the engine says -------------------------------------------------------------------- */

static void on_prepared(void *context, const struct prepared_chat *prepared)
{
    struct chat_call *call = context;
    call->streams = prepared->request.stream;
    call->reply = chat_reply_create(chat_engine_assets(call->route->engine), prepared, call->id,
                                    (int64_t)time(NULL));
    if (!call->streams)
        return;
    sse_stream_open(&call->stream, call->exchange, call->route->options->stream_buffer_bytes,
                    monotonic_clock_ms());
    chat_reply_begin(call->reply, &call->out);
    if (call->out.length > 0)
        http_exchange_send(call->exchange, call->out.bytes, call->out.length);
    text_buffer_clear(&call->out);
    if (!event_pending(call->route->timer, EV_TIMEOUT, NULL))
        event_add(call->route->timer, &(struct timeval){.tv_usec = KEEP_ALIVE_LOOK_MS * 1000});
}

static bool on_token(void *context, uint32_t token, bool is_stop_token)
{
    struct chat_call *call = context;
    return chat_reply_token(call->reply, token, is_stop_token, &call->out);
}

static void on_flush(void *context)
{
    struct chat_call *call = context;
    if (call->streams && call->out.length > 0 && !stream_flush(call))
        call_cancel(call);
}

static void on_finished(void *context, enum finish_reason finish, uint32_t cached_tokens)
{
    struct chat_call *call = context;
    chat_reply_end(call->reply, finish, cached_tokens, &call->out);
    if (call->streams) {
        if (stream_flush(call))
            sse_stream_close(&call->stream);
    } else if (call->out.failed) {
        http_exchange_abort(call->exchange);
    } else {
        http_exchange_reply(call->exchange, 200, "application/json", call->out.bytes,
                            call->out.length);
    }
    call_destroy(call);
}

static void on_failed(void *context, const struct api_error *error)
{
    struct chat_call *call = context;
    if (!call->streams) {
        http_exchange_reply_error(call->exchange, error);
    } else {
        chat_reply_fail(call->reply, error, &call->out);
        if (stream_flush(call))
            sse_stream_close(&call->stream);
    }
    call_destroy(call);
}

static const struct live_request_sink sink = {.prepared = on_prepared,
                                              .token = on_token,
                                              .flush = on_flush,
                                              .finished = on_finished,
                                              .failed = on_failed};

/* --- the route ------------------------------------------------------------------------------- */

static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct chat_route *route = context;
    int64_t now_ms = monotonic_clock_ms();
    bool any = false;
    for (struct chat_call *call = route->calls; call; call = call->next) {
        if (!call->streams)
            continue;
        any = true;
        sse_stream_keep_alive(&call->stream, now_ms,
                              (int64_t)route->options->keepalive_comment_s * 1000);
    }
    if (any)
        event_add(route->timer, &(struct timeval){.tv_usec = KEEP_ALIVE_LOOK_MS * 1000});
}

void chat_route_handle(struct chat_route *route, struct http_exchange *exchange)
{
    struct api_error error;
    struct chat_call *call = call_create(route, exchange);
    struct prepare_input input = {.random_seed = random_number() >> 11};
    input.body = http_parser_take_body((struct http_parser *)(uintptr_t)exchange->request,
                                       &input.body_bytes);
    if (!input.body)
        input.body = must_strdup("");
    if (chat_engine_admit(route->engine, &input, &sink, call, &call->request, &error) !=
        RESULT_OK) {
        http_exchange_reply_error(exchange, &error);
        call_destroy(call);
        return;
    }
    http_exchange_on_gone(exchange, on_gone, call);
}

struct chat_route *chat_route_create(struct event_base *base, struct chat_engine *engine,
                                     const struct options *options)
{
    struct chat_route *route = must_alloc(1, sizeof *route);
    route->engine = engine;
    route->options = options;
    route->timer = event_new(base, -1, 0, on_timer, route);
    must(route->timer != NULL);
    return route;
}

void chat_route_destroy(struct chat_route *route)
{
    if (!route)
        return;
    must(route->calls == NULL);
    event_free(route->timer);
    free(route);
}
