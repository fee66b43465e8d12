/*
 * States come from the set of models as they change, so that none is missed. A timer, which runs only
 * while there are streams, adds the progress of models that are loading, and comments in silence. A
 * reader that does not take the events is cut off at --stream-buffer-bytes.
 */
#include "frontend/serve/routes/model_events.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/sse_stream.h"
#include "frontend/serve/engine/engine_status.h"
#include "frontend/serve/models/model_set.h"
#include "frontend/serve/routes/route_replies.h"
#include "proto/limits.h"
#include "proto/must.h"

#define LOOK_MS 250

struct model_stream {
    struct model_stream *next;
    struct model_stream **link;
    struct model_events *events;
    struct sse_stream sse;
};

struct model_events {
    const struct options *options;
    const struct model_set *models; /* set by the first request */
    struct event *timer;
    struct model_stream *list;
    uint32_t count;
    struct text_buffer out;
};

static void stream_destroy(struct model_stream *stream)
{
    *stream->link = stream->next;
    if (stream->next)
        stream->next->link = stream->link;
    stream->events->count--;
    free(stream);
}

static void on_gone(void *context)
{
    stream_destroy(context);
}

static void event_write(const struct model *model, const char *event, struct text_buffer *out)
{
    struct engine_status status;
    text_buffer_append_text(out, "data: {\"model\":");
    text_buffer_append_json_string(out, model_name(model), strlen(model_name(model)));
    text_buffer_append_format(out, ",\"event\":\"%s\",\"data\":{\"status\":\"%s\"", event,
                              model_state_name(model_state(model)));
    if (model_state(model) == MODEL_LOADING && model_engine(model)) {
        engine_status_read(model_engine(model), &status);
        text_buffer_append_format(out, ",\"progress\":{\"stage\":\"text_model\",\"value\":%.4f}",
                                  status.load_progress);
    }
    if (model_failure(model)[0]) {
        text_buffer_append_text(out, ",\"error\":");
        api_error_append_words(model_failure(model), out);
    }
    text_buffer_append_text(out, "}}\n\n");
}

/* Sends what is in `out` to all streams. */
static void out_send(struct model_events *events)
{
    int64_t now_ms = monotonic_clock_ms();
    struct model_stream *next;
    for (struct model_stream *stream = events->list; stream; stream = next) {
        next = stream->next;
        if (!events->out.failed && sse_stream_send(&stream->sse, events->out.bytes,
                                                   events->out.length, now_ms) == RESULT_OK)
            continue;
        sse_stream_abort(&stream->sse);
        stream_destroy(stream);
    }
    if (events->out.failed)
        text_buffer_fini(&events->out);
}

void model_events_tell(struct model_events *events, const struct model *model)
{
    if (!events || !events->list)
        return;
    text_buffer_clear(&events->out);
    event_write(model, "status_change", &events->out);
    out_send(events);
}

static void timer_start(struct model_events *events)
{
    if (events->list)
        event_add(events->timer, &(struct timeval){.tv_usec = LOOK_MS * 1000});
}

static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct model_events *events = context;
    for (uint32_t i = 0; events->list && i < model_set_count(events->models); i++) {
        const struct model *model = model_set_at(events->models, i);
        if (model_state(model) == MODEL_LOADING)
            model_events_tell(events, model);
    }
    int64_t now_ms = monotonic_clock_ms();
    for (struct model_stream *stream = events->list; stream; stream = stream->next)
        sse_stream_keep_alive(&stream->sse, now_ms,
                              (int64_t)events->options->keepalive_comment_s * 1000);
    timer_start(events);
}

struct model_events *model_events_create(struct event_base *base, const struct options *options)
{
    struct model_events *events = must_alloc(1, sizeof *events);
    events->options = options;
    events->timer = event_new(base, -1, 0, on_timer, events);
    must(events->timer != NULL);
    return events;
}

void model_events_end(struct model_events *events)
{
    while (events->list) {
        if (sse_stream_close(&events->list->sse, "", 0) != RESULT_OK)
            sse_stream_abort(&events->list->sse);
        stream_destroy(events->list);
    }
}

void model_events_destroy(struct model_events *events)
{
    if (!events)
        return;
    must(!events->list);
    event_free(events->timer);
    text_buffer_fini(&events->out);
    free(events);
}

void model_events_open(const struct route_context *context, struct http_exchange *exchange)
{
    struct model_events *events = context->model_events;
    struct api_error error;
    bool refused = true;
    if (!model_set_is_directory(context->models))
        (void)api_error_invalid(&error, "",
                                "this server has one model, given with --model; GET "
                                "/v1/status/stream reports its state");
    else if (events->count == LIMIT_STATUS_STREAMS)
        (void)api_error_set(&error, RESULT_FULL, 429, "too_many_status_streams",
                            "at most %u streams of model events are served at a time",
                            LIMIT_STATUS_STREAMS);
    else
        refused = false;
    if (refused) {
        http_reply_error(exchange, &error);
        return;
    }
    if (exchange->request->method == HTTP_HEAD) {
        http_reply_whole(exchange, 200, "text/event-stream; charset=utf-8", "", 0);
        return;
    }
    struct model_stream *stream = must_alloc(1, sizeof *stream);
    stream->next = events->list;
    stream->link = &events->list;
    stream->events = events;
    if (stream->next)
        stream->next->link = &stream->next;
    events->list = stream;
    events->count++;
    events->models = context->models;
    http_exchange_on_gone(exchange, on_gone, stream);
    struct text_buffer first = {0};
    for (uint32_t i = 0; i < model_set_count(context->models); i++)
        event_write(model_set_at(context->models, i), "model_status", &first);
    must(!first.failed); /* LIMIT_MODELS names */
    sse_stream_open(&stream->sse, exchange, events->options->stream_buffer_bytes,
                    monotonic_clock_ms(), first.bytes, first.length);
    text_buffer_fini(&first);
    timer_start(events);
}
