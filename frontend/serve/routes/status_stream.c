/*
 * One timer serves all streams and runs only while there is one, so that a server without viewers
 * does nothing. A viewer whose last report is still unsent gets none until it has read it: reports
 * are states, and a later one replaces an earlier one.
 */
#include "frontend/serve/routes/status_stream.h"

#include <event2/event.h>
#include <stdlib.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/sse_stream.h"
#include "frontend/serve/engine/chat_engine.h"
#include "frontend/serve/engine/engine_status.h"
#include "frontend/serve/routes/route_replies.h"
#include "frontend/serve/routes/status_report.h"
#include "frontend/serve/routes/trace_report.h"
#include "proto/limits.h"
#include "proto/must.h"

#define STATUS_STREAM_MS 500

struct status_stream {
    struct status_stream *next;
    struct status_stream **link; /* the link that points at this one */
    struct status_streams *streams;
    struct http_exchange *exchange;
};

struct status_streams {
    const struct model_set *models; /* set by the first request */
    struct event *timer;
    struct status_stream *list;
    uint32_t count;
    struct text_buffer trace; /* of this report, the same for all streams */
    struct text_buffer out;
};

static void stream_destroy(struct status_stream *stream)
{
    *stream->link = stream->next;
    if (stream->next)
        stream->next->link = stream->link;
    stream->streams->count--;
    free(stream);
}

static void on_gone(void *context)
{
    stream_destroy(context);
}

static void write_histogram(const char *name, const struct metric_histogram *histogram,
                            struct text_buffer *out)
{
    text_buffer_append_format(out, ",\"%s\":{\"bounds\":[", name);
    for (size_t i = 0; i < histogram->bound_count; i++)
        text_buffer_append_format(out, "%s%g", i ? "," : "", histogram->bounds[i]);
    text_buffer_append_text(out, "],\"counts\":[");
    for (size_t i = 0; i <= histogram->bound_count; i++)
        text_buffer_append_format(out, "%s%llu", i ? "," : "",
                                  (unsigned long long)histogram->counts[i]);
    text_buffer_append_text(out, "]}");
}

static void write_figures(const struct chat_engine *engine, struct text_buffer *out)
{
    struct engine_status status;
    engine_status_read(engine, &status);
    const struct serve_metrics *metrics = engine_status_metrics(engine);
    const struct {
        const char *name;
        uint64_t value;
    } values[] = {
        {"steps", status.totals.steps},
        {"step_time_us", status.totals.step_time_us},
        {"prompt_rows", status.totals.prompt_tokens},
        {"decode_rows", status.totals.generated_tokens},
        {"patch_rows", status.totals.patch_rows},
        {"preemptions", status.totals.preemptions},
        {"prefix_query_tokens", status.totals.prefix_query_tokens},
        {"prefix_hit_tokens", status.totals.prefix_hit_tokens},
        {"generated_tokens", metrics->generated_tokens},
        {"kv_block_tokens", status.kv_block_tokens},
        {"kv_blocks_total", status.kv_blocks_total},
        {"kv_blocks_used", status.kv_blocks_used},
        {"kv_blocks_cached", status.kv_blocks_cached},
        {"weights_bytes", status.weights_bytes},
        {"state_bytes", status.state_bytes},
        {"feature_bytes_used", status.feature_bytes_used},
        {"preparing", status.preparing},
        {"waiting", (uint64_t)status.waiting + status.worker_waiting},
        {"running", status.worker_running},
    };
    text_buffer_append_format(out, "{\"time_ms\":%lld", (long long)monotonic_clock_ms());
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        text_buffer_append_format(out, ",\"%s\":%llu", values[i].name,
                                  (unsigned long long)values[i].value);
    write_histogram("first_token_s", &metrics->histograms[SERVE_FIRST_TOKEN], out);
    write_histogram("between_tokens_s", &metrics->histograms[SERVE_BETWEEN_TOKENS], out);
    text_buffer_append_text(out, "}");
}

/* The loaded model that was used last; NULL: none is loaded. */
static struct chat_engine *shown_engine(const struct model_set *models)
{
    const struct model *shown = NULL;
    for (uint32_t i = 0; i < model_set_count(models); i++) {
        const struct model *model = model_set_at(models, i);
        if (model_engine(model) && (!shown || model_used_ms(model) > model_used_ms(shown)))
            shown = model;
    }
    return shown ? model_engine(shown) : NULL;
}

/* Before the events of a report. */
static void write_trace(struct status_streams *streams)
{
    struct chat_engine *engine = shown_engine(streams->models);
    text_buffer_clear(&streams->trace);
    if (engine)
        trace_report_write(engine, &streams->trace);
}

static void write_events(struct status_streams *streams, const struct http_exchange *exchange)
{
    struct text_buffer *out = &streams->out;
    struct chat_engine *engine = shown_engine(streams->models);
    text_buffer_clear(out);
    text_buffer_append_text(out, "event: models\ndata: ");
    status_report_write_states(streams->models, out);
    text_buffer_append_text(out, "\n\n");
    if (!engine)
        return;
    text_buffer_append_text(out, "event: status\ndata: ");
    status_report_write(engine, exchange->rights.admin ? NULL : &exchange->client_key, out);
    text_buffer_append_text(out, "\n\nevent: figures\ndata: ");
    write_figures(engine, out);
    text_buffer_append_text(out, "\n\nevent: trace\ndata: ");
    text_buffer_append(out, streams->trace.bytes, streams->trace.length);
    text_buffer_append_text(out, "\n\n");
    out->failed = out->failed || streams->trace.failed;
}

static void timer_start(struct status_streams *streams)
{
    if (streams->list)
        event_add(streams->timer, &(struct timeval){.tv_usec = STATUS_STREAM_MS * 1000});
}

static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct status_streams *streams = context;
    struct status_stream *next;
    write_trace(streams);
    for (struct status_stream *stream = streams->list; stream; stream = next) {
        next = stream->next;
        if (http_reply_unsent_bytes(stream->exchange) > 0)
            continue;
        write_events(streams, stream->exchange);
        if (streams->out.failed) {
            text_buffer_fini(&streams->out);
            http_reply_abort(stream->exchange);
            stream_destroy(stream);
        } else {
            http_reply_send(stream->exchange, streams->out.bytes, streams->out.length);
        }
    }
    timer_start(streams);
}

struct status_streams *status_streams_create(struct event_base *base)
{
    struct status_streams *streams = must_alloc(1, sizeof *streams);
    streams->timer = event_new(base, -1, 0, on_timer, streams);
    must(streams->timer != NULL);
    return streams;
}

void status_streams_end(struct status_streams *streams)
{
    while (streams->list) {
        http_reply_end(streams->list->exchange, "", 0);
        stream_destroy(streams->list);
    }
}

void status_streams_destroy(struct status_streams *streams)
{
    if (!streams)
        return;
    must(!streams->list);
    event_free(streams->timer);
    text_buffer_fini(&streams->trace);
    text_buffer_fini(&streams->out);
    free(streams);
}

void status_stream_open(const struct route_context *context, struct http_exchange *exchange)
{
    struct status_streams *streams = context->status_streams;
    if (streams->count == LIMIT_STATUS_STREAMS) {
        struct api_error error;
        (void)api_error_set(&error, RESULT_FULL, 429, "too_many_status_streams",
                            "at most %u status streams are served at a time", LIMIT_STATUS_STREAMS);
        http_reply_error(exchange, &error);
        return;
    }
    if (exchange->request->method == HTTP_HEAD) {
        http_reply_whole(exchange, 200, "text/event-stream; charset=utf-8", "", 0);
        return;
    }
    struct status_stream *stream = must_alloc(1, sizeof *stream);
    *stream = (struct status_stream){
        .next = streams->list, .link = &streams->list, .streams = streams, .exchange = exchange};
    if (stream->next)
        stream->next->link = &stream->next;
    streams->list = stream;
    streams->count++;
    streams->models = context->models;
    http_exchange_on_gone(exchange, on_gone, stream);
    write_trace(streams);
    write_events(streams, exchange);
    struct sse_stream opening;
    sse_stream_open(&opening, exchange, SIZE_MAX, monotonic_clock_ms(), streams->out.bytes,
                    streams->out.length);
    timer_start(streams);
}
