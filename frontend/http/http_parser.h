/*
 * Parses one HTTP/1.x request from a stream of bytes, piece by piece. Independent of sockets and
 * time.
 *
 * Limits: max_head_bytes for the head (request line, headers, trailers), max_body_bytes for the
 * body, LIMIT_HTTP_HEADERS headers. Memory grows with the bytes that arrived, never with the
 * announced length.
 */
#ifndef SHOAL_FRONTEND_HTTP_HTTP_PARSER_H
#define SHOAL_FRONTEND_HTTP_HTTP_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

enum http_method {
    HTTP_OTHER = 0,
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_OPTIONS,
    HTTP_PUT,
    HTTP_DELETE
};

enum http_parser_state {
    HTTP_PARSER_HEAD,
    HTTP_PARSER_BODY,       /* content_left more bytes */
    HTTP_PARSER_CHUNK_SIZE, /* the line before a chunk */
    HTTP_PARSER_CHUNK_DATA,
    HTTP_PARSER_CHUNK_END, /* the line end after a chunk */
    HTTP_PARSER_TRAILER,
    HTTP_PARSER_DONE,
    HTTP_PARSER_BAD /* `status` and `problem` describe the reply; the connection is closed after it
                     */
};

struct http_header {
    const char *name; /* lower case */
    const char *value;
};

struct http_parser {
    size_t max_head_bytes;
    uint64_t max_body_bytes;
    enum http_parser_state state;

    char *head; /* the strings below point into it once the head is complete */
    size_t head_bytes;
    size_t head_capacity;
    size_t line_start;
    const char *method_name;
    enum http_method method;
    const char *path;      /* not decoded; starts with '/' or is "*"; slashes are merged */
    const char *query;     /* "" when there is none */
    const char *authority; /* host[:port] of an absolute target, otherwise of the Host header; ""
                              when there is none */
    int minor_version;     /* of HTTP/1 */
    struct http_header headers[LIMIT_HTTP_HEADERS];
    uint32_t header_count;
    bool keep_alive;
    bool expects_continue;
    bool chunked;

    uint64_t content_left; /* of the body or of this chunk */
    char line[LIMIT_HTTP_CHUNK_LINE_BYTES];
    size_t line_bytes;
    size_t trailer_bytes;
    char *body; /* malloc'd, NUL-terminated; NULL when empty */
    size_t body_bytes;
    size_t body_capacity;

    int status; /* HTTP */
    const char *problem;
};

/* Prepares for the next request and frees the last one. First use: a zeroed struct. */
void http_parser_begin(struct http_parser *parser, size_t max_head_bytes, uint64_t max_body_bytes);
void http_parser_fini(struct http_parser *parser);

/* Takes bytes of this request; returns how many. Bytes after the end of the request are left to the
 * caller. So are, once, the bytes after its head, so that the head can be checked before a byte of
 * the body is kept. */
size_t http_parser_feed(struct http_parser *parser, const char *bytes, size_t count);

/* True once the first byte of a request has arrived. */
bool http_parser_started(const struct http_parser *parser);
/* NULL if absent; `name` in lower case. The first one if there are several. */
const char *http_parser_header(const struct http_parser *parser, const char *name);
/* Moves the body out; the caller frees. */
char *http_parser_take_body(struct http_parser *parser, size_t *body_bytes);

#endif
