/*
 * A reply as server-sent events, or as another stream of pieces: headers, events, keep-alives during silence, and an end. The
 * unsent bytes of a slow reader are limited.
 */
#ifndef SHOAL_FRONTEND_HTTP_SSE_STREAM_H
#define SHOAL_FRONTEND_HTTP_SSE_STREAM_H

#include <stdint.h>

#include "frontend/http/http_exchange.h"

#define SSE_SILENCE ": keep-alive\n\n"

struct sse_stream {
    struct http_exchange *exchange; /* NULL once the stream is over */
    size_t max_unsent_bytes;
    int64_t last_sent_ms;
    const char *silence; /* sent during silence: a comment, unless the caller sets an event */
};

/* Sends the headers and the first events (may be empty). `now_ms` is monotonic. */
void sse_stream_open(struct sse_stream *stream, struct http_exchange *exchange,
                     size_t max_unsent_bytes, int64_t now_ms, const char *first,
                     size_t first_bytes);
/* The same for a stream of another content type. */
void sse_stream_open_as(struct sse_stream *stream, struct http_exchange *exchange,
                        const char *content_type, size_t max_unsent_bytes, int64_t now_ms,
                        const char *first, size_t first_bytes);
/* Sends whole events. RESULT_FULL: the reader is too slow; nothing was sent, and the caller aborts.
 */
enum result sse_stream_send(struct sse_stream *stream, const char *bytes, size_t count,
                            int64_t now_ms) RESULT_CHECKED;
/* Sends `silence` if nothing was sent for `interval_ms`. */
void sse_stream_keep_alive(struct sse_stream *stream, int64_t now_ms, int64_t interval_ms);
/* Sends the last events (may be empty) and the end; results as for sse_stream_send(). */
enum result sse_stream_close(struct sse_stream *stream, const char *last,
                             size_t last_bytes) RESULT_CHECKED;
/* Cuts the connection. */
void sse_stream_abort(struct sse_stream *stream);

#endif
