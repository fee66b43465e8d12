/*
 * One request for an answer over HTTP, whatever API it came through (frontend/api/api_format.h).
 *
 * The order is: ready? room? (503 and 429, before a byte of the body is looked at) -> prepare ->
 * for a stream, headers and the role chunk at once, so that the client knows it was understood ->
 * tokens -> end. Until the headers of a stream are out, and for a reply that is not streamed
 * always, an error is an HTTP status; afterwards it is an event in the stream. Whichever side ends
 * first, the other is told: the client's departure cancels the request, a reader that is too slow
 * is cut and cancelled, and every stream that is not cut ends with a terminal event. A deadline,
 * where the options set one, counts from the request's first byte and ends it wherever it is: with
 * a 504, or with an error event in a stream that has begun.
 *
 * A background request gives its exchange back as soon as it is understood, and then runs with
 * none: it ends by itself, by its deadline, or by generation_route_cancel(); a client that watches
 * its stream may leave. What is written of it then goes nowhere: its format keeps it.
 *
 * What the log's line about the request should say is noted on the exchange as it becomes known.
 *
 * Silent streams get a comment from one timer that runs only while there are streams.
 */
#include "frontend/serve/generation_route.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "frontend/api/generation_prepare.h"
#include "frontend/http/sse_stream.h"
#include "frontend/serve/monotonic_clock.h"
#include "proto/must.h"

#define KEEP_ALIVE_LOOK_MS 500

struct generation_call {
    struct generation_call *next;
    struct generation_call **link; /* what points at this call */
    struct generation_route *route;
    struct http_exchange *exchange; /* NULL: in the background */
    struct live_request *request;
    const struct api_format *format;
    void *format_context;
    struct api_reply *reply; /* NULL until the prompt is prepared */
    bool background;
    bool streams;
    struct sse_stream stream;
    struct text_buffer out;
    struct event *deadline; /* NULL: none */
    uint32_t output_tokens;
    int64_t arrived_us;
    struct client_key client_key;
    char id[64];
    char request_id[LIMIT_HTTP_REQUEST_ID_BYTES + 1];
};

struct generation_route {
    struct chat_engine *engine;
    const struct options *options;
    struct event_base *base;
    struct event *timer;
    struct generation_call *calls;
    struct generation_route_counters counters;
};

static uint64_t random_number(void)
{
    uint64_t number = 0;
    must(getrandom(&number, sizeof number, 0) == sizeof number);
    return number;
}

static struct generation_call *call_create(struct generation_route *route,
                                           struct http_exchange *exchange,
                                           const struct api_format *format, void *format_context)
{
    struct generation_call *call = must_alloc(1, sizeof *call);
    call->route = route;
    call->exchange = exchange;
    call->arrived_us = exchange->arrived_us;
    call->client_key = exchange->client_key;
    strcpy(call->request_id, exchange->request_id);
    call->format = format;
    call->format_context = format_context;
    snprintf(call->id, sizeof call->id, "%s%016llx%08x", format->id_prefix,
             (unsigned long long)random_number(), (unsigned)(random_number() >> 32));
    call->next = route->calls;
    call->link = &route->calls;
    if (call->next)
        call->next->link = &call->next;
    route->calls = call;
    return call;
}

static void call_destroy(struct generation_call *call)
{
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    if (call->deadline)
        event_free(call->deadline);
    if (call->reply)
        call->format->reply_destroy(call->reply);
    text_buffer_fini(&call->out);
    free(call);
}

static void call_note(struct generation_call *call, struct log_field field)
{
    if (call->exchange)
        http_exchange_note(call->exchange, field);
}

/* How it ended, for the log: in the line of its exchange, which is not over yet, or, in the
 * background, in one of its own. */
static void call_note_end(struct generation_call *call, const char *reason)
{
    const struct log_field fields[] = {
        LOG_TEXT("request_id", call->request_id), LOG_TEXT("id", call->id),
        LOG_WHOLE("output_tokens", call->output_tokens), LOG_TEXT("finish_reason", reason)};
    if (call->background && !call->exchange)
        log_event(LOG_INFO, "background_request", fields, sizeof fields / sizeof fields[0]);
    if (call->output_tokens > 0)
        call_note(call, LOG_WHOLE("output_tokens", call->output_tokens));
    call_note(call, LOG_TEXT("finish_reason", reason));
}

/* Its work stops. */
static void call_cancel(struct generation_call *call)
{
    struct chat_engine *engine = call->route->engine;
    struct live_request *request = call->request;
    call_destroy(call);
    chat_engine_cancel(engine, request);
}

/* The client left, or was cut. */
static void call_leave(struct generation_call *call)
{
    bool runs_on = call->background && call->reply;
    call->exchange = NULL;
    call->streams = false;
    if (!runs_on)
        call_cancel(call);
}

static void on_gone(void *context)
{
    struct generation_call *call = context;
    call_note_end(call, "client_gone");
    call_leave(call);
}

static void log_slow_reader(const struct generation_call *call)
{
    const struct log_field fields[] = {
        LOG_TEXT("request_id", call->request_id),
        LOG_WHOLE("unsent_bytes", http_exchange_unsent_bytes(call->exchange))};
    log_event(LOG_WARN, "slow_reader_cut", fields, 2);
}

/* Sends what is in `out`. False: the stream could not take it and is cut. */
static bool stream_flush(struct generation_call *call)
{
    bool good =
        !call->out.failed && sse_stream_send(&call->stream, call->out.bytes, call->out.length,
                                             monotonic_clock_ms()) == RESULT_OK;
    text_buffer_clear(&call->out);
    if (!good) {
        call->route->counters.slow_readers_cut++;
        log_slow_reader(call);
        call_note_end(call, "slow_reader");
        sse_stream_abort(&call->stream);
    }
    return good;
}

/* --- what the engine says -------------------------------------------------------------------- */

/* Workers know a request by its slot and generation only: this line joins the two names. */
static void log_prepared(const struct generation_call *call,
                         const struct prepared_generation *prepared)
{
    const struct log_field fields[] = {
        LOG_TEXT("request_id", call->request_id),
        LOG_WHOLE("slot", call->request->id.slot),
        LOG_WHOLE("generation", call->request->id.generation),
        LOG_WHOLE("prompt_tokens", prepared->prompt.count),
        LOG_WHOLE("max_new_tokens", prepared->max_new_tokens),
    };
    log_event(LOG_DEBUG, "request_prepared", fields, sizeof fields / sizeof fields[0]);
}

/* The reply's beginning is the whole answer: the exchange is over, the request goes on. */
static void answer_now(struct generation_call *call)
{
    call->format->reply_begin(call->reply, &call->out);
    if (call->out.failed)
        http_exchange_abort(call->exchange);
    else
        http_exchange_reply(call->exchange, 200, "application/json", call->out.bytes,
                            call->out.length);
    call->exchange = NULL;
    text_buffer_clear(&call->out);
}

static void on_prepared(void *context, const struct prepared_generation *prepared)
{
    struct generation_call *call = context;
    const struct model_assets *assets = chat_engine_assets(call->route->engine);
    call->streams = prepared->request.stream;
    call->background = prepared->request.background;
    log_prepared(call, prepared);
    http_exchange_note(call->exchange, LOG_TEXT("model", assets->model_id));
    http_exchange_note(call->exchange, LOG_WHOLE("prompt_tokens", prepared->prompt.count));
    call->reply =
        call->format->reply_create(&(struct reply_config){.assets = assets,
                                                          .prepared = prepared,
                                                          .id = call->id,
                                                          .request_id = call->exchange->request_id,
                                                          .created_unix_s = (int64_t)time(NULL),
                                                          .format_context = call->format_context,
                                                          .client_key = call->client_key});
    if (call->background && !call->streams)
        answer_now(call);
    if (!call->streams)
        return;
    sse_stream_open(&call->stream, call->exchange, call->route->options->stream_buffer_bytes,
                    monotonic_clock_ms());
    call->format->reply_begin(call->reply, &call->out);
    if (call->out.length > 0)
        http_exchange_send(call->exchange, call->out.bytes, call->out.length);
    text_buffer_clear(&call->out);
    if (!event_pending(call->route->timer, EV_TIMEOUT, NULL))
        event_add(call->route->timer, &(struct timeval){.tv_usec = KEEP_ALIVE_LOOK_MS * 1000});
}

static bool on_token(void *context, const struct reply_token *token)
{
    struct generation_call *call = context;
    if (call->output_tokens++ == 0) {
        int64_t after_us = monotonic_clock_us() - call->arrived_us;
        call_note(call, LOG_REAL("ttft_ms", (double)after_us / 1000));
    }
    return call->format->reply_token(call->reply, 0, token, &call->out);
}

static void on_flush(void *context)
{
    struct generation_call *call = context;
    if (!call->exchange)
        text_buffer_clear(&call->out);
    else if (call->streams && call->out.length > 0 && !stream_flush(call))
        call_leave(call);
}

/* What is in `out` ends the reply. */
static void call_answer(struct generation_call *call)
{
    if (!call->exchange)
        return;
    if (call->streams) {
        if (stream_flush(call))
            sse_stream_close(&call->stream);
    } else if (call->out.failed) {
        http_exchange_abort(call->exchange);
    } else {
        http_exchange_reply(call->exchange, 200, "application/json", call->out.bytes,
                            call->out.length);
    }
}

static void on_finished(void *context, enum finish_reason finish, uint32_t cached_tokens)
{
    struct generation_call *call = context;
    call->format->reply_choice_end(call->reply, 0, finish, cached_tokens, &call->out);
    call->format->reply_end(call->reply, &call->out);
    call_note_end(call, finish == FINISH_LENGTH ? "length" : "stop");
    call_answer(call);
    call_destroy(call);
}

static void on_failed(void *context, const struct api_error *error)
{
    struct generation_call *call = context;
    call_note_end(call, "error");
    if (error->code)
        call_note(call, LOG_TEXT("error", error->code));
    if (call->reply && (call->streams || call->background)) {
        call->format->reply_fail(call->reply, error, &call->out);
        call_answer(call);
    } else {
        http_exchange_reply_error(call->exchange, error);
    }
    call_destroy(call);
}

static const char *on_name(void *context)
{
    const struct generation_call *call = context;
    return call->request_id;
}

static const struct live_request_sink sink = {.name = on_name,
                                              .prepared = on_prepared,
                                              .token = on_token,
                                              .flush = on_flush,
                                              .finished = on_finished,
                                              .failed = on_failed};

/* --- the deadline ---------------------------------------------------------------------------- */

static void on_deadline(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct generation_call *call = context;
    struct chat_engine *engine = call->route->engine;
    struct live_request *request = call->request;
    struct api_error error;
    call->route->counters.deadlines_exceeded++;
    (void)api_error_set(&error, RESULT_TIMED_OUT, 504, "deadline_exceeded",
                        "the answer was not complete within this server's limit of %llu s",
                        (unsigned long long)call->route->options->request_deadline_s);
    on_failed(call, &error);
    chat_engine_cancel(engine, request);
}

static void deadline_start(struct generation_call *call)
{
    const struct generation_route *route = call->route;
    if (route->options->request_deadline_s == 0)
        return;
    int64_t left_us = call->arrived_us + (int64_t)route->options->request_deadline_s * 1000000 -
                      monotonic_clock_us();
    if (left_us < 0)
        left_us = 0;
    struct timeval after = {.tv_sec = left_us / 1000000, .tv_usec = left_us % 1000000};
    call->deadline = event_new(route->base, -1, 0, on_deadline, call);
    must(call->deadline && event_add(call->deadline, &after) == 0);
}

/* --- the route ------------------------------------------------------------------------------- */

static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct generation_route *route = context;
    int64_t now_ms = monotonic_clock_ms();
    bool any = false;
    for (struct generation_call *call = route->calls; call; call = call->next) {
        if (!call->streams)
            continue;
        any = true;
        sse_stream_keep_alive(&call->stream, now_ms,
                              (int64_t)route->options->keepalive_comment_s * 1000);
    }
    if (any)
        event_add(route->timer, &(struct timeval){.tv_usec = KEEP_ALIVE_LOOK_MS * 1000});
}

void generation_route_handle(struct generation_route *route, struct http_exchange *exchange,
                             const struct api_format *format, void *format_context)
{
    struct api_error error;
    struct generation_call *call = call_create(route, exchange, format, format_context);
    struct prepare_input input = {.random_seed = random_number() >> 11,
                                  .format = format,
                                  .format_context = format_context,
                                  .client_key = call->client_key};
    input.body = http_parser_take_body((struct http_parser *)(uintptr_t)exchange->request,
                                       &input.body_bytes);
    if (!input.body)
        input.body = must_strdup("");
    if (chat_engine_admit(route->engine, &input, &sink, call, &call->request, &error) !=
        RESULT_OK) {
        if (error.code)
            http_exchange_note(exchange, LOG_TEXT("error", error.code));
        http_exchange_reply_error(exchange, &error);
        call_destroy(call);
        return;
    }
    http_exchange_on_gone(exchange, on_gone, call);
    deadline_start(call);
}

enum result generation_route_cancel(struct generation_route *route,
                                    const struct client_key *client_key, const char *id)
{
    struct generation_call *call = route->calls;
    while (call && (strcmp(call->id, id) != 0 || !call->reply || !call->format->reply_cancel ||
                    memcmp(&call->client_key, client_key, sizeof *client_key) != 0))
        call = call->next;
    if (!call)
        return RESULT_NOT_FOUND;
    call_note_end(call, "cancelled");
    call->format->reply_cancel(call->reply, &call->out);
    call_answer(call);
    call_cancel(call);
    return RESULT_OK;
}

struct generation_route *generation_route_create(struct event_base *base,
                                                 struct chat_engine *engine,
                                                 const struct options *options)
{
    struct generation_route *route = must_alloc(1, sizeof *route);
    route->engine = engine;
    route->options = options;
    route->base = base;
    route->timer = event_new(base, -1, 0, on_timer, route);
    must(route->timer != NULL);
    return route;
}

void generation_route_destroy(struct generation_route *route)
{
    if (!route)
        return;
    while (route->calls) {
        must(!route->calls->exchange);
        call_cancel(route->calls);
    }
    event_free(route->timer);
    free(route);
}

const struct generation_route_counters *
generation_route_counters(const struct generation_route *route)
{
    return &route->counters;
}
