/*
 * Parses an HTTP/1.1 reply from the bytes of its connection, in pieces of any size: status, the
 * headers that matter, and the body without its framing.
 */
#ifndef SHOAL_SCRIPTS_LOAD_HTTP_REPLY_READER_H
#define SHOAL_SCRIPTS_LOAD_HTTP_REPLY_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"

#define HTTP_REPLY_HEAD_BYTES (64u << 10) /* of all lines together; servers use less than 4 kB */
#define HTTP_REPLY_LINE_BYTES (8u << 10)

enum http_reply_stage {
    HTTP_REPLY_STATUS_LINE = 0,
    HTTP_REPLY_HEADERS,
    HTTP_REPLY_BODY_COUNTED,   /* body_left more bytes of it are expected */
    HTTP_REPLY_BODY_TO_CLOSE,  /* until the connection ends */
    HTTP_REPLY_CHUNK_SIZE,     /* a chunk's first line */
    HTTP_REPLY_CHUNK_DATA,     /* body_left more bytes of it are expected */
    HTTP_REPLY_CHUNK_LINE_END, /* the line end after a chunk's bytes */
    HTTP_REPLY_TRAILERS,
    HTTP_REPLY_DONE
};

struct http_reply_reader {
    enum http_reply_stage stage;
    int status; /* 0 until its line is read */
    bool is_event_stream;
    bool chunked;
    bool counted;
    uint64_t body_left;
    uint32_t head_bytes;
    uint32_t line_bytes;
    char line[HTTP_REPLY_LINE_BYTES];
};

/* Initialized with all bytes zero. Passes the body's bytes to `body` as they come; if that returns
 * anything but RESULT_OK, so does this. RESULT_CORRUPT: not HTTP, or contradictory.
 * RESULT_TOO_LARGE: a bound is exceeded. Bytes after the reply are ignored. */
enum result
http_reply_reader_feed(struct http_reply_reader *reader, const char *bytes, size_t count,
                       enum result (*body)(void *context, const char *bytes, size_t count),
                       void *context) RESULT_CHECKED;
/* The connection ended: returns whether the reply was complete. */
bool http_reply_reader_is_whole_at_close(const struct http_reply_reader *reader);

#endif
