/*
 * Each stream is an exchange and a replay (responses_replay.h).
 *
 * A stream gets events when its answer goes on, at most half of --stream-buffer-bytes ahead of its
 * reader; what is left is sent by a timer, as the reader takes what came before. So a long answer
 * can be repeated to a slow reader. A reader is cut only if it is slow while all readers together
 * leave too much unread. The same timer sends keep-alives; it runs while there are streams.
 */
#include "frontend/serve/routes/response_watches.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/responses/responses_replay.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/sse_stream.h"
#include "proto/must.h"

#define BEHIND_LOOK_MS     20 /* while a stream has more events to send */
#define KEEP_ALIVE_LOOK_MS 500

struct response_watch {
    struct response_watch *next;
    struct response_watch **link; /* the link that points at this one */
    struct response_watches *watches;
    struct responses_replay *replay;
    struct sse_stream stream;
    bool behind; /* more events are known */
};

struct response_watches {
    const struct options *options;
    struct event *timer;
    struct response_watch *list;
    struct text_buffer out;
};

static void watch_destroy(struct response_watch *watch)
{
    *watch->link = watch->next;
    if (watch->next)
        watch->next->link = watch->link;
    responses_replay_destroy(watch->replay);
    free(watch);
}

static void on_gone(void *context)
{
    watch_destroy(context);
}

static void timer_start(struct response_watches *watches)
{
    bool behind = false;
    for (const struct response_watch *watch = watches->list; watch; watch = watch->next)
        behind |= watch->behind;
    if (watches->list)
        event_add(
            watches->timer,
            &(struct timeval){.tv_usec = (behind ? BEHIND_LOOK_MS : KEEP_ALIVE_LOOK_MS) * 1000});
}

/* Sends what is known and has room; ends the stream after its last event. */
static void watch_advance(struct response_watch *watch)
{
    struct response_watches *watches = watch->watches;
    struct text_buffer *out = &watches->out;
    size_t unsent = http_reply_unsent_bytes(watch->stream.exchange);
    size_t room = watches->options->stream_buffer_bytes / 2;
    watch->behind = true;
    if (http_reply_is_crowding(watch->stream.exchange)) {
        sse_stream_abort(&watch->stream);
        watch_destroy(watch);
        return;
    }
    if (unsent >= room)
        return;
    text_buffer_clear(out);
    enum responses_replay_state state = responses_replay_advance(watch->replay, room - unsent, out);
    watch->behind = state == RESPONSES_REPLAY_MORE;
    if (out->failed) {
        text_buffer_fini(out);
        sse_stream_abort(&watch->stream);
        watch_destroy(watch);
    } else if (state == RESPONSES_REPLAY_ENDED) {
        http_reply_end(watch->stream.exchange, out->bytes ? out->bytes : "", out->length);
        watch_destroy(watch);
    } else if (out->length > 0) {
        http_reply_send(watch->stream.exchange, out->bytes, out->length);
        watch->stream.last_sent_ms = monotonic_clock_ms();
    }
}

static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct response_watches *watches = context;
    struct response_watch *next;
    for (struct response_watch *watch = watches->list; watch; watch = next) {
        next = watch->next;
        if (watch->behind)
            watch_advance(watch);
        else
            sse_stream_keep_alive(&watch->stream, monotonic_clock_ms(),
                                  (int64_t)watches->options->keepalive_comment_s * 1000);
    }
    timer_start(watches);
}

struct response_watches *response_watches_create(struct event_base *base,
                                                 const struct options *options)
{
    struct response_watches *watches = must_alloc(1, sizeof *watches);
    watches->options = options;
    watches->timer = event_new(base, -1, 0, on_timer, watches);
    must(watches->timer != NULL);
    return watches;
}

void response_watches_destroy(struct response_watches *watches)
{
    if (!watches)
        return;
    must(!watches->list);
    event_free(watches->timer);
    text_buffer_fini(&watches->out);
    free(watches);
}

void response_watches_open(struct response_watches *watches, struct http_exchange *exchange,
                           struct response_record *record, uint64_t first_sequence)
{
    struct response_watch *watch = must_alloc(1, sizeof *watch);
    watch->watches = watches;
    watch->replay = responses_replay_create(record, first_sequence);
    watch->next = watches->list;
    watch->link = &watches->list;
    if (watch->next)
        watch->next->link = &watch->next;
    watches->list = watch;
    http_exchange_on_gone(exchange, on_gone, watch);
    sse_stream_open(&watch->stream, exchange, watches->options->stream_buffer_bytes,
                    monotonic_clock_ms(), "", 0);
    watch_advance(watch);
    timer_start(watches);
}

void response_watches_advance(struct response_watches *watches, const char *id)
{
    struct response_watch *next;
    bool behind = false;
    for (struct response_watch *watch = watches->list; watch; watch = next) {
        next = watch->next;
        if (watch->behind || strcmp(response_record_id(responses_replay_record(watch->replay)), id))
            continue;
        watch_advance(watch);
        behind = true;
    }
    if (behind)
        timer_start(watches);
}
