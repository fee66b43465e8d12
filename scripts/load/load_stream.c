/*
 * A connection is read as data arrives: bytes to http_reply_reader, its body to sse_event_reader,
 * its events to chat_event, text to the record with the time at which its bytes were read. The
 * clock starts before the connection is made, so a slow accept counts.
 *
 * Every request ends through finish(), once. It is complete if [DONE] came, or if a finish_reason
 * came and the reply's framing is complete; a stream that just ends is broken, because a client
 * cannot distinguish it from a crash.
 *
 * Everything that a server sends is bounded: the head, a line, an event, the whole body, the time.
 */
#include "scripts/load/load_stream.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/must.h"
#include "scripts/load/chat_event.h"
#include "scripts/load/http_reply_reader.h"
#include "scripts/load/sse_event_reader.h"

#define READ_AHEAD_BYTES (256u << 10)

struct load_stream {
    const struct load_stream_config *config;
    struct load_stream_plan plan;
    uint64_t tag;
    struct bufferevent *connection;
    struct event *timer; /* the deadline, or the moment to disconnect */
    int64_t start_us;
    int64_t now_us; /* when the current bytes were read */
    bool connected;
    bool disconnecting; /* the timer closes the connection (--disconnect-share) */
    bool starting;      /* within load_stream_start() */
    bool failed_at_start;
    bool finished; /* a finish_reason came */
    bool done;     /* [DONE] came */
    uint32_t pieces;
    uint64_t body_bytes;
    char words[512]; /* the beginning of a reply that is not a stream */
    size_t word_bytes;
    struct http_reply_reader reply;
    struct sse_event_reader events;
    struct load_record record;
};

int64_t load_clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

uint64_t load_stream_tag(const struct load_stream *stream)
{
    return stream->tag;
}

/* --- end -------------------------------------------------------------------------------------- */

static void finish(struct load_stream *stream, enum load_outcome outcome, const char *words)
{
    struct load_record *record = &stream->record;
    record->outcome = outcome;
    record->status = stream->reply.status;
    record->latency_us = load_clock_us() - stream->start_us;
    if (!record->has_usage)
        record->output_tokens = stream->pieces;
    if (load_outcome_is_failure(outcome) && record->error[0] == '\0')
        snprintf(record->error, sizeof record->error, "%s", words);
    if (stream->plan.reset && outcome == LOAD_DISCONNECTED) {
        struct linger at_once = {.l_onoff = 1};
        setsockopt(bufferevent_getfd(stream->connection), SOL_SOCKET, SO_LINGER, &at_once,
                   sizeof at_once);
    }
    bufferevent_free(stream->connection);
    event_free(stream->timer);
    sse_event_reader_fini(&stream->events);
    stream->config->done(stream->config->context, stream, record);
    free(stream);
}

/* The message in a reply that is not a stream: its error's code and text, else its first bytes. */
static void read_words(struct load_stream *stream)
{
    struct chat_event event;
    char *error = stream->record.error;
    size_t length = 0;
    if (chat_event_read(stream->words, stream->word_bytes, &event) == RESULT_OK && event.is_error) {
        memcpy(error, event.error, sizeof event.error);
        return;
    }
    for (; length < stream->word_bytes && length + 1 < sizeof stream->record.error; length++) {
        char c = stream->words[length];
        error[length] = c >= ' ' && c < 127 ? c : ' ';
    }
    error[length] = '\0';
}

static bool is_refusal(int status)
{
    return (status >= 400 && status < 500) || status == 501 || status == 503 || status == 505;
}

/* The reply has ended, or the rest does not matter. */
static void conclude(struct load_stream *stream, bool whole)
{
    const struct http_reply_reader *reply = &stream->reply;
    if (reply->status != 200 && !stream->plan.bad)
        read_words(stream);
    if (reply->status == 0)
        finish(stream, LOAD_FAILED_BROKEN, "the connection ended without a reply");
    else if (stream->plan.bad)
        finish(stream, is_refusal(reply->status) ? LOAD_REFUSED : LOAD_FAILED_BAD_ACCEPTED,
               "a bad request was not refused");
    else if (reply->status != 200)
        finish(stream, LOAD_FAILED_STATUS, "no message");
    else if (!reply->is_event_stream)
        finish(stream, LOAD_FAILED_BROKEN, "the reply is not an event stream");
    else if (stream->done || (stream->finished && whole))
        finish(stream, LOAD_COMPLETED, "");
    else
        finish(stream, LOAD_FAILED_BROKEN, "the stream's end is missing");
}

static void arm(struct load_stream *stream, int64_t after_us)
{
    struct timeval after = {.tv_sec = after_us / 1000000,
                            .tv_usec = (suseconds_t)(after_us % 1000000)};
    event_add(stream->timer, &after);
}

static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct load_stream *stream = context;
    if (stream->failed_at_start)
        finish(stream, LOAD_FAILED_CONNECT, "cannot connect");
    else if (stream->disconnecting)
        finish(stream, LOAD_DISCONNECTED, "");
    else
        finish(stream, LOAD_FAILED_TIMEOUT, "timed out");
}

void load_stream_stop(struct load_stream *stream)
{
    finish(stream, LOAD_STOPPED, "");
}

/* --- reading --------------------------------------------------------------------------------- */

/* RESULT_CANCELLED: no more bytes are to be read. */
static enum result on_event(void *context, const char *data, size_t length)
{
    struct load_stream *stream = context;
    struct load_record *record = &stream->record;
    struct chat_event event;
    if (chat_event_read(data, length, &event) != RESULT_OK)
        return RESULT_CORRUPT;
    if (event.is_error) {
        record->outcome = LOAD_FAILED_ERROR_EVENT;
        snprintf(record->error, sizeof record->error, "%s", event.error);
        return RESULT_CANCELLED;
    }
    if (event.has_usage) {
        record->has_usage = true;
        record->input_tokens = event.prompt_tokens;
        record->output_tokens = event.completion_tokens;
    }
    stream->finished |= event.finished;
    if (event.has_text) {
        stream->pieces++;
        load_record_add_text(record, stream->now_us - stream->start_us);
        if (stream->plan.disconnect == LOAD_DISCONNECT_IN_ANSWER &&
            stream->pieces >= stream->plan.disconnect_pieces)
            stream->disconnecting = true;
    }
    stream->done = event.done;
    return stream->done || stream->disconnecting ? RESULT_CANCELLED : RESULT_OK;
}

static enum result on_body(void *context, const char *bytes, size_t count)
{
    struct load_stream *stream = context;
    stream->body_bytes += count;
    if (stream->body_bytes > LOAD_STREAM_BODY_BYTES)
        return RESULT_TOO_LARGE;
    if (stream->reply.status == 200 && stream->reply.is_event_stream)
        return sse_event_reader_feed(&stream->events, bytes, count, on_event, stream);
    size_t room = sizeof stream->words - stream->word_bytes;
    size_t kept = count < room ? count : room;
    memcpy(stream->words + stream->word_bytes, bytes, kept);
    stream->word_bytes += kept;
    return RESULT_OK;
}

/* Reads the available bytes. False: the stream has ended and is freed. */
static bool read_input(struct load_stream *stream)
{
    struct evbuffer *input = bufferevent_get_input(stream->connection);
    enum result result = RESULT_OK;
    char bytes[16384];
    int count;
    stream->now_us = load_clock_us();
    while (result == RESULT_OK && (count = evbuffer_remove(input, bytes, sizeof bytes)) > 0)
        result = http_reply_reader_feed(&stream->reply, bytes, (size_t)count, on_body, stream);
    if (result == RESULT_OK && stream->reply.stage != HTTP_REPLY_DONE)
        return true;
    if (stream->record.outcome == LOAD_FAILED_ERROR_EVENT)
        finish(stream, LOAD_FAILED_ERROR_EVENT, "");
    else if (stream->disconnecting)
        finish(stream, LOAD_DISCONNECTED, "");
    else if (result == RESULT_OK || result == RESULT_CANCELLED)
        conclude(stream, true);
    else
        finish(stream, LOAD_FAILED_BROKEN,
               result == RESULT_TOO_LARGE ? "the reply exceeds a bound" : "the reply is malformed");
    return false;
}

static void on_read(struct bufferevent *connection, void *context)
{
    (void)connection;
    (void)read_input(context);
}

/* The whole request was sent. */
static void on_written(struct bufferevent *connection, void *context)
{
    (void)connection;
    struct load_stream *stream = context;
    if (stream->disconnecting || (stream->plan.disconnect != LOAD_DISCONNECT_IN_REQUEST &&
                                  stream->plan.disconnect != LOAD_DISCONNECT_AFTER_REQUEST))
        return;
    stream->disconnecting = true;
    arm(stream, stream->plan.disconnect_delay_us);
}

static void on_connection(struct bufferevent *connection, short what, void *context)
{
    struct load_stream *stream = context;
    if (what & BEV_EVENT_CONNECTED) {
        stream->connected = true;
        return;
    }
    if (stream->starting) {
        stream->failed_at_start = true; /* libevent reports this before the call returns */
        return;
    }
    if (!stream->connected) {
        char words[80];
        int number = EVUTIL_SOCKET_ERROR();
        snprintf(words, sizeof words, "cannot connect: %s", strerror(number));
        finish(stream, LOAD_FAILED_CONNECT, words);
        return;
    }
    (void)connection;
    if (read_input(stream))
        conclude(stream, http_reply_reader_is_whole_at_close(&stream->reply));
}

/* --- start ------------------------------------------------------------------------------------ */

struct load_stream *load_stream_start(const struct load_stream_config *config,
                                      const struct text_buffer *request,
                                      const struct load_stream_plan *plan, uint64_t tag)
{
    struct load_stream *stream = must_alloc(1, sizeof *stream);
    stream->config = config;
    stream->plan = *plan;
    stream->tag = tag;
    stream->start_us = load_clock_us();
    stream->record.start_us = stream->start_us - config->begin_us;
    stream->timer = event_new(config->base, -1, 0, on_timer, stream);
    stream->connection = bufferevent_socket_new(config->base, -1, BEV_OPT_CLOSE_ON_FREE);
    must(stream->timer && stream->connection);
    bufferevent_setcb(stream->connection, on_read, on_written, on_connection, stream);
    bufferevent_setwatermark(stream->connection, EV_READ, 0, READ_AHEAD_BYTES);
    size_t count = request->length;
    if (plan->disconnect == LOAD_DISCONNECT_IN_REQUEST && plan->disconnect_bytes < count)
        count = plan->disconnect_bytes;
    bufferevent_write(stream->connection, request->bytes, count);
    bufferevent_enable(stream->connection, EV_READ | EV_WRITE);
    arm(stream, config->timeout_us);
    stream->starting = true;
    if (bufferevent_socket_connect(stream->connection, config->address,
                                   (int)config->address_bytes) != 0)
        stream->failed_at_start = true;
    stream->starting = false;
    if (stream->failed_at_start)
        event_active(stream->timer, EV_TIMEOUT, 0);
    return stream;
}
