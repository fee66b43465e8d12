/*
 * Server-sent events over an exchange.
 *
 * Every flush is one HTTP chunk, with any number of events. A stream whose reader leaves more than
 * max_unsent_bytes in this process (beyond the kernel's buffer) is cut, because an event can
 * neither be dropped nor queued without a limit. So is a stream with any unsent bytes while all
 * readers together leave too much.
 */
#include "frontend/http/sse_stream.h"

#include <string.h>

#include "frontend/http/http_reply.h"
#include "proto/must.h"

#define FRAME_BYTES 32u /* maximum overhead of a chunk and of the last chunk */

void sse_stream_open(struct sse_stream *stream, struct http_exchange *exchange,
                     size_t max_unsent_bytes, int64_t now_ms, const char *first, size_t first_bytes)
{
    sse_stream_open_as(stream, exchange, "text/event-stream; charset=utf-8", max_unsent_bytes,
                       now_ms, first, first_bytes);
}

void sse_stream_open_as(struct sse_stream *stream, struct http_exchange *exchange,
                        const char *content_type, size_t max_unsent_bytes, int64_t now_ms,
                        const char *first, size_t first_bytes)
{
    *stream = (struct sse_stream){.exchange = exchange,
                                  .max_unsent_bytes = max_unsent_bytes,
                                  .last_sent_ms = now_ms,
                                  .silence = SSE_SILENCE};
    http_reply_begin(exchange, 200, content_type,
                     "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n", first, first_bytes);
}

static bool has_room(const struct sse_stream *stream, size_t count)
{
    size_t unsent = http_reply_unsent_bytes(stream->exchange) + count + FRAME_BYTES;
    return unsent <= stream->max_unsent_bytes && !http_reply_is_crowding(stream->exchange);
}

enum result sse_stream_send(struct sse_stream *stream, const char *bytes, size_t count,
                            int64_t now_ms)
{
    must(stream->exchange != NULL);
    if (!has_room(stream, count))
        return RESULT_FULL;
    http_reply_send(stream->exchange, bytes, count);
    stream->last_sent_ms = now_ms;
    return RESULT_OK;
}

void sse_stream_keep_alive(struct sse_stream *stream, int64_t now_ms, int64_t interval_ms)
{
    if (!stream->exchange || now_ms - stream->last_sent_ms < interval_ms)
        return;
    /* A reader with unsent bytes needs no keep-alive. */
    if (http_reply_unsent_bytes(stream->exchange) == 0)
        http_reply_send(stream->exchange, stream->silence, strlen(stream->silence));
    stream->last_sent_ms = now_ms;
}

enum result sse_stream_close(struct sse_stream *stream, const char *last, size_t last_bytes)
{
    must(stream->exchange != NULL);
    if (!has_room(stream, last_bytes))
        return RESULT_FULL;
    http_reply_end(stream->exchange, last, last_bytes);
    stream->exchange = NULL;
    return RESULT_OK;
}

void sse_stream_abort(struct sse_stream *stream)
{
    http_reply_abort(stream->exchange);
    stream->exchange = NULL;
}
