/*
 * One request for an answer over HTTP, of any API (frontend/api/generation/api_format.h).
 *
 * The order is: ready? room? (503 and 429, before a byte of the body is parsed) -> prepare -> for a
 * stream, headers and first event at once, so that the client knows its request was understood ->
 * tokens -> end. A stream whose model is still being loaded after --keepalive-comment begins before it is
 * parsed, with a comment that is repeated, so that no client or proxy takes it for dead. Before a stream's headers, and in replies that are not streamed, an error is an
 * HTTP status; later it is an event in the stream. The first side to end is reported to the other:
 * a client that leaves cancels the request, a reader that is too slow is cut and cancelled, and
 * every stream that is not cut ends with a terminal event. A deadline, if set, counts from the
 * request's first byte and ends the request in any state: with a 504, or with an error event in a
 * stream.
 *
 * Several answers to one request (n, several prompts) are as many live requests, each of which runs
 * as if it were alone. Preparing the first choice creates the others; if one fails, all fail.
 *
 * A background request replies as soon as it is prepared, and then runs without an exchange: it
 * ends normally, by its deadline, or by generation_call_stop(); a client that watches its stream
 * may leave. Its further output goes nowhere, because its format keeps it.
 *
 * An answer that an earlier process began (generation_call_resume()) runs like one in the background
 * whose client has left.
 *
 * Fields of the request's log line are noted on the exchange as they become known.
 */
#include "frontend/serve/routes/generation_call.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "frontend/api/generation/generation_share.h"
#include "frontend/assets/adapter_set.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/sse_stream.h"
#include "frontend/serve/models/body_model.h"
#include "frontend/serve/models/model_instance.h"
#include "frontend/serve/models/model_wait.h"
#include "frontend/serve/routes/key_admission.h"
#include "frontend/serve/routes/model_choice.h"
#include "frontend/serve/routes/tool_notes.h"
#include "proto/must.h"

/* One of the answers. */
struct generation_choice {
    struct generation_call *call;
    uint32_t index;
    struct live_request *request; /* NULL: ended */
};

struct generation_call {
    struct generation_call *next;
    struct generation_call **link; /* the link that points at this call */
    struct generation_calls *calls;
    struct model *model;    /* NULL until it is known; not read after it is admitted */
    struct model_wait wait; /* until the model is loaded */
    int64_t waiting_since_ms;
    struct prepare_input waiting_input;
    struct model_instance *instance; /* NULL until it is admitted */
    struct http_exchange *exchange;  /* NULL: in the background */
    struct generation_choice first;
    struct generation_choice *more; /* [more_count] */
    uint32_t more_count;
    uint32_t running; /* choices that have not ended */
    const struct api_format *format;
    void *format_context;
    struct api_reply *reply; /* NULL until the prompt is prepared */
    bool background;
    bool streams;
    bool may_begin_early; /* the body wants a stream, and its format can begin while it waits */
    bool began_early;     /* the stream began before the request was parsed */
    bool any_length;      /* some choice ended by its length */
    struct sse_stream stream;
    char waiting_comment[MODEL_WAIT_TEXT_BYTES + 8];
    struct text_buffer out;
    struct event *deadline; /* NULL: none */
    bool counted;           /* in the usage of its key */
    bool resumed;
    void *resume_context;
    void (*resume_over)(void *context, const char *id, const struct api_error *error);
    uint32_t output_tokens;
    uint64_t prompt_tokens;
    int64_t arrived_us;
    struct client_key client_key;
    char id[64];
    char request_id[LIMIT_HTTP_REQUEST_ID_BYTES + 1];
};

static uint64_t random_number(void)
{
    uint64_t number = 0;
    must(getrandom(&number, sizeof number, 0) == sizeof number);
    return number;
}

static uint64_t seed_choose(const struct options *options)
{
    return options->request_seed == UINT64_MAX ? random_number() >> 11 : options->request_seed;
}

static void call_link(struct generation_call *call, struct generation_calls *calls)
{
    call->calls = calls;
    call->first = (struct generation_choice){.call = call};
    call->running = 1;
    call->next = calls->list;
    call->link = &calls->list;
    if (call->next)
        call->next->link = &call->next;
    calls->list = call;
}

static struct generation_call *call_create(struct generation_calls *calls,
                                           struct http_exchange *exchange,
                                           const struct api_format *format, void *format_context)
{
    struct generation_call *call = must_alloc(1, sizeof *call);
    call->exchange = exchange;
    call->arrived_us = exchange->arrived_us;
    call->client_key = exchange->client_key;
    strcpy(call->request_id, exchange->request_id);
    call->format = format;
    call->format_context = format_context;
    snprintf(call->id, sizeof call->id, "%s%016llx%08x", format->id_prefix,
             (unsigned long long)random_number(), (unsigned)(random_number() >> 32));
    call_link(call, calls);
    return call;
}

/* Its request id, for the log, is the answer's id. */
static struct generation_call *call_create_resumed(struct generation_calls *calls,
                                                   const struct generation_resumption *resumption)
{
    struct generation_call *call = must_alloc(1, sizeof *call);
    call->resumed = call->background = true;
    call->arrived_us = monotonic_clock_us();
    call->client_key = resumption->client_key;
    call->format = resumption->format;
    call->format_context = resumption->format_context;
    call->resume_context = resumption->context;
    snprintf(call->id, sizeof call->id, "%s", resumption->id);
    snprintf(call->request_id, sizeof call->request_id, "%s", resumption->id);
    call_link(call, calls);
    return call;
}

static void resumption_end(struct generation_call *call, const struct api_error *error)
{
    void (*over)(void *, const char *, const struct api_error *) = call->resume_over;
    call->resume_over = NULL;
    if (over)
        over(call->resume_context, call->id, error);
}

static void call_destroy(struct generation_call *call)
{
    if (call->counted) {
        key_usage_take_tokens(call->calls->usage, &call->client_key,
                              call->prompt_tokens + call->output_tokens, monotonic_clock_ms());
        key_usage_end(call->calls->usage, &call->client_key);
    }
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    if (call->deadline)
        event_free(call->deadline);
    if (call->reply) {
        call->format->reply_destroy(call->reply);
        response_watches_advance(call->calls->watches, call->id);
    }
    resumption_end(call, NULL);
    model_wait_cancel(&call->wait);
    if (call->instance)
        model_instance_release(call->instance);
    free(call->waiting_input.body);
    text_buffer_fini(&call->out);
    free(call->more);
    free(call);
}

static void call_note(struct generation_call *call, struct log_field field)
{
    if (call->exchange)
        http_exchange_note(call->exchange, field);
}

/* Logs how it ended: in the line of its exchange or, in the background, in its own line. */
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

/* Stops the choice's work. */
static void choice_cancel(struct generation_choice *choice)
{
    struct live_request *request = choice->request;
    choice->request = NULL;
    if (request)
        chat_engine_cancel(model_instance_engine(choice->call->instance), request);
}

static void others_cancel(struct generation_call *call, const struct generation_choice *than)
{
    if (&call->first != than)
        choice_cancel(&call->first);
    for (uint32_t i = 0; i < call->more_count; i++) {
        if (&call->more[i] != than)
            choice_cancel(&call->more[i]);
    }
}

static void call_cancel(struct generation_call *call)
{
    others_cancel(call, NULL);
    call_destroy(call);
}

/* The client left, or was cut. */
static void call_leave(struct generation_call *call)
{
    bool runs_on = call->background && call->reply;
    call->exchange = NULL;
    call->streams = call->began_early = false;
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
        LOG_WHOLE("unsent_bytes", http_reply_unsent_bytes(call->exchange))};
    log_event(LOG_WARN, "slow_reader_cut", fields, sizeof fields / sizeof fields[0]);
}

enum flush { FLUSH_GOES_ON, FLUSH_ENDS };

/* Sends the contents of `out`. False: the stream could not take it and is cut. */
static bool stream_flush(struct generation_call *call, enum flush flush)
{
    const struct text_buffer *out = &call->out;
    bool good = !out->failed;
    if (good && flush == FLUSH_ENDS)
        good = sse_stream_close(&call->stream, out->bytes, out->length) == RESULT_OK;
    else if (good)
        good = sse_stream_send(&call->stream, out->bytes, out->length, monotonic_clock_ms()) ==
               RESULT_OK;
    text_buffer_clear(&call->out);
    if (!good) {
        call->calls->counters.slow_readers_cut++;
        log_slow_reader(call);
        call_note_end(call, "slow_reader");
        sse_stream_abort(&call->stream);
    }
    return good;
}

/* --- what the engine says -------------------------------------------------------------------- */

/* Workers know a request only by slot and generation: this line joins both names. */
static void log_prepared(const struct generation_call *call,
                         const struct prepared_generation *prepared)
{
    const struct log_field fields[] = {
        LOG_TEXT("request_id", call->request_id),
        LOG_WHOLE("slot", call->first.request->id.slot),
        LOG_WHOLE("generation", call->first.request->id.generation),
        LOG_WHOLE("prompt_tokens", prepared->prompt.count),
        LOG_WHOLE("max_new_tokens", prepared->max_new_tokens),
    };
    log_event(LOG_DEBUG, "request_prepared", fields, sizeof fields / sizeof fields[0]);
}

/* Replies with the whole answer of a background request; the request continues. */
static void answer_now(struct generation_call *call)
{
    call->format->reply_begin(call->reply, &call->out);
    if (call->out.failed)
        http_reply_abort(call->exchange);
    else
        http_reply_whole(call->exchange, 200, "application/json", call->out.bytes,
                         call->out.length);
    call->exchange = NULL;
    text_buffer_clear(&call->out);
}

/* An earlier process sent this reply. */
static void answer_nowhere(struct generation_call *call)
{
    call->format->reply_begin(call->reply, &call->out);
    text_buffer_clear(&call->out);
}

static const struct live_request_sink sink;

/* Creates the other answers to the same body. */
static void answers_share(struct generation_call *call, const struct prepared_generation *prepared)
{
    uint32_t answers = generation_share_answers(prepared);
    call->running = answers;
    call->more_count = answers - 1;
    if (answers > 1)
        call->more = must_alloc(answers - 1, sizeof *call->more);
    for (uint32_t i = 1; i < answers; i++) {
        struct generation_choice *choice = &call->more[i - 1];
        *choice = (struct generation_choice){.call = call, .index = i};
        choice->request = chat_engine_share(call->first.request, i, &sink, choice);
    }
}

/* Opens the stream with the contents of `out`. */
static void stream_open(struct generation_call *call)
{
    const char *type = call->format->stream_type;
    sse_stream_open_as(&call->stream, call->exchange,
                       type ? type : "text/event-stream; charset=utf-8",
                       call->calls->options->stream_buffer_bytes, monotonic_clock_ms(),
                       call->out.bytes, call->out.length);
    text_buffer_clear(&call->out);
    call->calls->stream_begins(call->calls->context);
}

/* Sends the answer's first events. What a slow reader of an open stream leaves no room for is sent with the next ones. */
static void stream_begin(struct generation_call *call)
{
    call->format->reply_begin(call->reply, &call->out);
    if (!call->began_early)
        stream_open(call);
    else if (sse_stream_send(&call->stream, call->out.bytes, call->out.length,
                             monotonic_clock_ms()) == RESULT_OK)
        text_buffer_clear(&call->out);
    call->stream.silence = call->format->silence ? call->format->silence : SSE_SILENCE;
}

/* Tells the client of a stream what its request waits for. */
static void waiting_tell(struct generation_call *call, int64_t now_ms, int64_t interval_ms)
{
    char text[MODEL_WAIT_TEXT_BYTES];
    model_wait_describe(&call->wait, text);
    snprintf(call->waiting_comment, sizeof call->waiting_comment, ": %s\n\n", text);
    if (call->began_early) {
        sse_stream_keep_alive(&call->stream, now_ms, interval_ms);
    } else if (now_ms - call->waiting_since_ms >= interval_ms) {
        call->began_early = true;
        text_buffer_append_text(&call->out, call->waiting_comment);
        stream_open(call);
        call->stream.silence = call->waiting_comment;
    }
}

static void on_prepared(void *context, const struct prepared_generation *prepared)
{
    struct generation_call *call = ((struct generation_choice *)context)->call;
    const struct model_assets *assets = chat_engine_assets(model_instance_engine(call->instance));
    call->streams = prepared->request.stream && !call->resumed;
    call->background = prepared->request.background || call->resumed;
    call->prompt_tokens = prepared->prompt.count;
    if (prepared->request.keeps)
        model_instance_keep(call->instance, prepared->request.keep_ms);
    if (call->counted)
        key_usage_take_images(call->calls->usage, &call->client_key,
                              image_set_count(prepared->images), monotonic_clock_ms());
    log_prepared(call, prepared);
    call_note(call, LOG_TEXT("model", prepared->request.adapter ? prepared->request.adapter->name
                                                                : assets->model_id));
    call_note(call, LOG_WHOLE("prompt_tokens", prepared->prompt.count));
    call->reply =
        call->format->reply_create(&(struct reply_config){.assets = assets,
                                                          .prepared = prepared,
                                                          .id = call->id,
                                                          .request_id = call->request_id,
                                                          .created_unix_s = (int64_t)time(NULL),
                                                          .resumed = call->resumed,
                                                          .format_context = call->format_context,
                                                          .client_key = call->client_key});
    answers_share(call, prepared);
    tool_notes_add(call->exchange, call->request_id, &prepared->request, assets);
    if (call->resumed)
        answer_nowhere(call);
    else if (call->streams)
        stream_begin(call);
    else if (call->background && !call->began_early)
        answer_now(call);
}

static void on_progress(void *context, const struct reply_progress *progress)
{
    const struct generation_choice *choice = context;
    struct generation_call *call = choice->call;
    if (call->format->reply_progress)
        call->format->reply_progress(call->reply, choice->index, progress, &call->out);
}

static void on_prompt_token(void *context, const struct reply_token *token)
{
    struct generation_choice *choice = context;
    struct generation_call *call = choice->call;
    if (call->format->reply_prompt_token)
        call->format->reply_prompt_token(call->reply, choice->index, token);
}

static bool on_token(void *context, const struct reply_token *token)
{
    const struct generation_choice *choice = context;
    struct generation_call *call = choice->call;
    if (call->output_tokens++ == 0) {
        int64_t after_us = monotonic_clock_us() - call->arrived_us;
        call_note(call, LOG_REAL("ttft_ms", (double)after_us / 1000));
    }
    return call->format->reply_token(call->reply, choice->index, token, &call->out);
}

static void on_flush(void *context)
{
    struct generation_call *call = ((struct generation_choice *)context)->call;
    if (!call->exchange)
        text_buffer_clear(&call->out);
    else if (call->streams && call->out.length > 0 && !stream_flush(call, FLUSH_GOES_ON)) {
        call_leave(call);
        return;
    }
    response_watches_advance(call->calls->watches, call->id);
}

/* Ends the reply with the contents of `out`. */
static void call_answer(struct generation_call *call)
{
    if (!call->exchange)
        return;
    if (call->streams || call->began_early) {
        (void)stream_flush(call, FLUSH_ENDS);
    } else if (call->out.failed) {
        http_reply_abort(call->exchange);
    } else {
        const char *type = call->format->reply_type && call->reply
                               ? call->format->reply_type(call->reply)
                               : "application/json";
        http_reply_whole(call->exchange, 200, type, call->out.bytes, call->out.length);
    }
}

static void call_fail(struct generation_call *call, const struct api_error *error);

/* Whether the answer goes on with another request, or has failed for lack of one. */
static bool call_goes_on(struct generation_choice *choice, struct live_request *request)
{
    struct generation_call *call = choice->call;
    struct prepared_generation made = {0};
    struct api_error error;
    enum result result;
    if (!call->format->reply_next ||
        !call->format->reply_next(call->reply, &made, &call->out, &result, &error))
        return false;
    if (result != RESULT_OK) {
        call_fail(call, &error);
        return true;
    }
    chat_engine_follow(request, &made);
    return true;
}

static void on_follows(void *context, struct live_request *request)
{
    struct generation_choice *choice = context;
    choice->request = request;
    on_flush(choice);
}

static void on_finished(void *context, enum finish_reason finish, struct cached_prompt cached)
{
    struct generation_choice *choice = context;
    struct generation_call *call = choice->call;
    struct live_request *request = choice->request;
    choice->request = NULL;
    call->any_length |= finish == FINISH_LENGTH;
    if (call_goes_on(choice, request))
        return;
    call->format->reply_choice_end(call->reply, choice->index, finish, cached, &call->out);
    if (--call->running > 0) {
        on_flush(choice);
        return;
    }
    call->format->reply_end(call->reply, &call->out);
    call_note_end(call, call->any_length ? "length" : "stop");
    call_answer(call);
    call_destroy(call);
}

static struct reply_refusal refusal_of(const struct generation_call *call, const char *model_id,
                                       const struct api_error *error)
{
    return (struct reply_refusal){.id = call->id,
                                  .request_id = call->request_id,
                                  .model_id = model_id,
                                  .created_unix_s = (int64_t)time(NULL),
                                  .error = error};
}

/* Answers a request for a stream that was not prepared with a stream that fails. */
static void stream_refuse(struct generation_call *call, const struct api_error *error)
{
    const struct model_assets *assets = chat_engine_assets(model_instance_engine(call->instance));
    const struct reply_refusal refusal = refusal_of(call, assets->model_id, error);
    call->streams = true;
    call->format->reply_refuse(&refusal, &call->out);
    stream_open(call);
    call_answer(call);
}

/* Ends a stream that began before its request was parsed. */
static void early_stream_fail(struct generation_call *call, const struct api_error *error)
{
    const struct model_assets *assets =
        call->instance ? chat_engine_assets(model_instance_engine(call->instance)) : NULL;
    const struct reply_refusal refusal =
        refusal_of(call, assets ? assets->model_id : model_name(call->model), error);
    call->streams = true;
    call->format->reply_fail_early(&refusal, &call->out);
    call_answer(call);
}

/* One of the answers failed: the whole request fails. */
static void call_fail(struct generation_call *call, const struct api_error *error)
{
    call_note_end(call, "error");
    if (error->code)
        call_note(call, LOG_TEXT("error", error->code));
    if (call->reply && (call->streams || call->background)) {
        must(call->format->reply_fail != NULL);
        call->format->reply_fail(call->reply, error, &call->out);
        call_answer(call);
    } else if (call->resumed) {
        resumption_end(call, error);
    } else if (call->began_early) {
        early_stream_fail(call, error);
    } else if (!call->reply && error->in_stream) {
        stream_refuse(call, error);
    } else {
        http_reply_error(call->exchange, error);
    }
    call_cancel(call);
}

static void on_failed(void *context, const struct api_error *error)
{
    struct generation_choice *choice = context;
    choice->request = NULL;
    call_fail(choice->call, error);
}

static const char *on_name(void *context)
{
    const struct generation_choice *choice = context;
    return choice->call->request_id;
}

static const struct live_request_sink sink = {.name = on_name,
                                              .prepared = on_prepared,
                                              .progress = on_progress,
                                              .prompt_token = on_prompt_token,
                                              .token = on_token,
                                              .flush = on_flush,
                                              .finished = on_finished,
                                              .follows = on_follows,
                                              .failed = on_failed};

/* --- the deadline ---------------------------------------------------------------------------- */

static void on_deadline(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct generation_call *call = context;
    struct api_error error;
    call->calls->counters.deadlines_exceeded++;
    (void)api_error_set(&error, RESULT_TIMED_OUT, 504, "deadline_exceeded",
                        "the answer was not complete within this server's limit of %llu s",
                        (unsigned long long)call->calls->options->request_deadline_s);
    call_fail(call, &error);
}

static void deadline_start(struct generation_call *call)
{
    const struct generation_calls *calls = call->calls;
    if (calls->options->request_deadline_s == 0)
        return;
    int64_t left_us = call->arrived_us + (int64_t)calls->options->request_deadline_s * 1000000 -
                      monotonic_clock_us();
    if (left_us < 0)
        left_us = 0;
    struct timeval after = {.tv_sec = left_us / 1000000, .tv_usec = left_us % 1000000};
    call->deadline = event_new(calls->base, -1, 0, on_deadline, call);
    must(call->deadline && event_add(call->deadline, &after) == 0);
}

/* --- its model ------------------------------------------------------------------------------- */

/* Takes over input->body. */
static enum result call_admit(struct generation_call *call, struct prepare_input *input,
                              struct api_error *error)
{
    call->instance = model_use(call->model);
    return chat_engine_admit(model_instance_engine(call->instance), input, &sink, &call->first,
                             &call->first.request, error);
}

/* Replies before a stream begins. */
static void call_refuse(struct generation_call *call, const struct api_error *error)
{
    if (error->code)
        http_exchange_note(call->exchange, LOG_TEXT("error", error->code));
    http_reply_error(call->exchange, error);
    call_destroy(call);
}

static void on_model(void *context, const struct api_error *error)
{
    struct generation_call *call = context;
    struct prepare_input input = call->waiting_input;
    struct api_error refusal;
    call->waiting_input.body = NULL;
    call->stream.silence = SSE_SILENCE;
    if (error)
        free(input.body);
    else if (call_admit(call, &input, &refusal) == RESULT_OK)
        return;
    call_fail(call, error ? error : &refusal);
}

/* Takes over input->body if it is to wait. */
static enum model_readiness call_await(struct generation_call *call,
                                       const struct prepare_input *input, struct api_error *error)
{
    call->wait = (struct model_wait){.context = call, .done = on_model};
    enum model_readiness readiness = model_await(call->model, &call->wait, error);
    if (readiness != MODEL_IS_AWAITED)
        return readiness;
    call->waiting_input = *input;
    call->waiting_since_ms = monotonic_clock_ms();
    call->may_begin_early = call->exchange && call->format->reply_fail_early &&
                            body_model_streams(input->body, input->body_bytes);
    if (call->may_begin_early)
        call->calls->stream_begins(call->calls->context);
    return readiness;
}

/* --- from the route -------------------------------------------------------------------------- */

void generation_call_start(struct generation_calls *calls, struct http_exchange *exchange,
                           const struct api_format *format, void *format_context)
{
    struct api_error error;
    struct generation_call *call = call_create(calls, exchange, format, format_context);
    if (!key_admission_begin(calls->usage, exchange, &call->counted)) {
        call_destroy(call);
        return;
    }
    struct prepare_input input = {
        .random_seed = seed_choose(calls->options),
        .format = format,
        .format_context = format_context,
        .client_key = call->client_key,
        .coding = http_exchange_coding(exchange),
        .most_body_bytes = exchange->request->max_body_bytes,
        .cache_salt = tenant_salt_make(&calls->salt_key, &call->client_key,
                                       http_parser_header(exchange->request, "x-tenant-id"))};
    strcpy(input.answer_id, call->id);
    input.body = http_exchange_take_body(exchange, &input.body_bytes);
    if (!input.body)
        input.body = must_strdup("");
    call->model = model_choice_of_body(calls->models, &input, &error);
    enum model_readiness readiness =
        call->model ? call_await(call, &input, &error) : MODEL_IS_REFUSED;
    if (readiness == MODEL_IS_REFUSED)
        free(input.body);
    if (readiness == MODEL_IS_REFUSED ||
        (readiness == MODEL_IS_READY && call_admit(call, &input, &error) != RESULT_OK)) {
        call_refuse(call, &error);
        return;
    }
    http_exchange_on_gone(exchange, on_gone, call);
    deadline_start(call);
}

enum result generation_call_resume(struct generation_calls *calls,
                                   const struct generation_resumption *resumption,
                                   struct api_error *error)
{
    struct generation_call *call = call_create_resumed(calls, resumption);
    struct prepare_input input = {.random_seed = resumption->random_seed,
                                  .now_unix_s = resumption->now_unix_s,
                                  .resumes = true,
                                  .format = resumption->format,
                                  .format_context = resumption->format_context,
                                  .client_key = resumption->client_key,
                                  .cache_salt = resumption->cache_salt,
                                  .body = resumption->body,
                                  .body_bytes = resumption->body_bytes};
    strcpy(input.answer_id, call->id);
    call->model = resumption->model;
    enum model_readiness readiness = call_await(call, &input, error);
    if (readiness == MODEL_IS_REFUSED)
        free(input.body);
    if (readiness == MODEL_IS_REFUSED ||
        (readiness == MODEL_IS_READY && call_admit(call, &input, error) != RESULT_OK)) {
        call_destroy(call);
        return RESULT_FULL;
    }
    call->resume_over = resumption->over;
    deadline_start(call);
    return RESULT_OK;
}

struct generation_call *generation_call_find_resumed(const struct generation_calls *calls,
                                                     const char *id)
{
    struct generation_call *call = calls->list;
    while (call && !(call->resumed && strcmp(call->id, id) == 0))
        call = call->next;
    return call;
}

struct generation_call *generation_call_find(const struct generation_calls *calls,
                                             const struct client_key *client_key, const char *id)
{
    struct generation_call *call = calls->list;
    while (call && (strcmp(call->id, id) != 0 || !call->reply || !call->format->reply_cancel ||
                    memcmp(&call->client_key, client_key, sizeof *client_key) != 0))
        call = call->next;
    return call;
}

void generation_call_stop(struct generation_call *call)
{
    call_note_end(call, "cancelled");
    call->format->reply_cancel(call->reply, &call->out);
    call_answer(call);
    call_cancel(call);
}

void generation_call_drop(struct generation_call *call)
{
    must(!call->exchange);
    call_cancel(call);
}

struct generation_call *generation_call_next(const struct generation_call *call)
{
    return call->next;
}

bool generation_call_keep_alive(struct generation_call *call, int64_t now_ms)
{
    int64_t interval_ms = (int64_t)call->calls->options->keepalive_comment_s * 1000;
    bool waits = call->may_begin_early && call->wait.model;
    if (waits)
        waiting_tell(call, now_ms, interval_ms);
    else if (call->streams || call->began_early)
        sse_stream_keep_alive(&call->stream, now_ms, interval_ms);
    return waits || call->streams || call->began_early;
}
