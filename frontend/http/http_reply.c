/*
 * Replies as bytes: status line, the headers that every reply carries, then the body in one piece
 * or in chunks.
 */
#include "frontend/http/http_reply.h"

#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/http/http_connection.h"
#include "frontend/http/key_usage.h"
#include "proto/must.h"

static const struct {
    int status;
    const char *phrase;
} phrases[] = {
    {200, "OK"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {529, "Overloaded"}, /* Anthropic's status; not registered */
};

static const char *status_phrase(int status)
{
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        if (phrases[i].status == status)
            return phrases[i].phrase;
    }
    return "Unknown";
}

/* All bytes of a reply are written here. */
static void reply_write(struct http_exchange *exchange, const struct iovec parts[], int part_count)
{
    for (int i = 0; i < part_count; i++)
        exchange->reply_bytes += parts[i].iov_len;
    http_connection_write(exchange->connection, parts, part_count);
}

/* Status line and common headers; the caller adds its own and the empty line. */
static void head_write(struct http_exchange *exchange, int status, const char *content_type,
                       struct text_buffer *out)
{
    exchange->status = status;
    char date[64];
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &utc));
    const char *id = exchange->request_id; /* under OpenAI's header name and Anthropic's */
    text_buffer_append_format(
        out, "HTTP/1.1 %d %s\r\nDate: %s\r\nx-request-id: %s\r\nrequest-id: %s\r\n", status,
        status_phrase(status), date, id, id);
    if (content_type)
        text_buffer_append_format(out, "Content-Type: %s\r\n", content_type);
    if (exchange->tool_format)
        text_buffer_append_format(out, "x-shoal-tool-format: %s\r\n", exchange->tool_format);
    text_buffer_append(out, exchange->headers.bytes, exchange->headers.length);
    if (exchange->allow)
        text_buffer_append_format(out, "Allow: %s\r\n", exchange->allow);
    if (exchange->usage)
        key_usage_append_headers(exchange->usage, &exchange->client_key, monotonic_clock_ms(), out);
    cors_policy_append_headers(http_connection_cors(exchange->connection), exchange->request,
                               exchange->allow, out);
    bool keep = http_connection_keeps_alive(exchange->connection);
    if (!keep)
        text_buffer_append_text(out, "Connection: close\r\n");
    else if (exchange->request->minor_version == 0)
        text_buffer_append_text(out, "Connection: keep-alive\r\n");
}

static void whole_reply(struct http_exchange *exchange, int status, const char *content_type,
                        const char *extra_headers, const char *body, size_t body_bytes)
{
    must(!exchange->begun);
    struct text_buffer head = {0};
    head_write(exchange, status, content_type, &head);
    text_buffer_append_text(&head, extra_headers);
    if (status != 204 && status != 304)
        text_buffer_append_format(&head, "Content-Length: %zu\r\n", body_bytes);
    text_buffer_append_text(&head, "\r\n");
    if (head.failed) {
        text_buffer_fini(&head);
        http_reply_abort(exchange);
        return;
    }
    bool shows_body = exchange->request->method != HTTP_HEAD && body_bytes > 0;
    struct iovec parts[2] = {{.iov_base = head.bytes, .iov_len = head.length},
                             {.iov_base = (void *)(uintptr_t)body, .iov_len = body_bytes}};
    reply_write(exchange, parts, shows_body ? 2 : 1);
    text_buffer_fini(&head);
    http_connection_reply_done(exchange->connection);
}

void http_reply_whole(struct http_exchange *exchange, int status, const char *content_type,
                      const char *body, size_t body_bytes)
{
    whole_reply(exchange, status, content_type, "", body, body_bytes);
}

void http_reply_error(struct http_exchange *exchange, const struct api_error *error)
{
    struct text_buffer body = {0};
    char extra[80] = "";
    if (error->retry_after_s > 0)
        snprintf(extra, sizeof extra, "Retry-After: %u\r\n", error->retry_after_s);
    else if (error->status == 401)
        snprintf(extra, sizeof extra, "WWW-Authenticate: Bearer\r\n");
    int status = error->status;
    if (exchange->write_error)
        status = exchange->write_error(error, exchange->request_id, &body);
    else
        api_error_write_json(error, &body);
    if (body.failed)
        http_reply_abort(exchange);
    else
        whole_reply(exchange, status, "application/json", extra, body.bytes, body.length);
    text_buffer_fini(&body);
}

void http_reply_json(struct http_exchange *exchange, int status, struct text_buffer *body)
{
    if (body->failed)
        http_reply_abort(exchange);
    else
        whole_reply(exchange, status, "application/json", "", body->bytes, body->length);
    text_buffer_fini(body);
}

/* The events of a wake-up are a few hundred bytes of each stream; copying them costs less than a
 * write of several parts. */
#define JOINED_CHUNK_BYTES 2048u

/* One HTTP chunk, as parts of a write. */
struct chunk {
    char size[24]; /* its line, at the end of the array */
    char joined[JOINED_CHUNK_BYTES];
    struct iovec parts[3];
    int part_count; /* 0 for no bytes (an empty chunk would end the reply), and in a reply to HEAD */
};

/* Returns the length of the line, which ends at the end of `chunk->size`. */
static size_t size_line_write(struct chunk *chunk, size_t count)
{
    char *end = chunk->size + sizeof chunk->size;
    char *at = end - 2;
    memcpy(at, "\r\n", 2);
    for (; count > 0; count /= 16)
        *--at = "0123456789abcdef"[count % 16];
    return (size_t)(end - at);
}

static void part_add(struct chunk *chunk, const char *bytes, size_t count)
{
    chunk->parts[chunk->part_count++] =
        (struct iovec){.iov_base = (void *)(uintptr_t)bytes, .iov_len = count};
}

static void chunk_make(const struct http_exchange *exchange, const char *bytes, size_t count,
                       struct chunk *chunk)
{
    chunk->part_count = 0;
    if (count == 0 || exchange->request->method == HTTP_HEAD)
        return;
    if (!exchange->chunked) {
        part_add(chunk, bytes, count);
        return;
    }
    size_t line_bytes = size_line_write(chunk, count);
    const char *line = chunk->size + sizeof chunk->size - line_bytes;
    if (line_bytes + count + 2 > sizeof chunk->joined) {
        part_add(chunk, line, line_bytes);
        part_add(chunk, bytes, count);
        part_add(chunk, "\r\n", 2);
        return;
    }
    memcpy(chunk->joined, line, line_bytes);
    memcpy(chunk->joined + line_bytes, bytes, count);
    memcpy(chunk->joined + line_bytes + count, "\r\n", 2);
    part_add(chunk, chunk->joined, line_bytes + count + 2);
}

void http_reply_begin(struct http_exchange *exchange, int status, const char *content_type,
                      const char *extra_headers, const char *first, size_t first_bytes)
{
    must(!exchange->begun);
    exchange->begun = true;
    exchange->chunked = exchange->request->minor_version == 1;
    if (!exchange->chunked)
        http_connection_close_after_reply(exchange->connection);
    struct text_buffer head = {0};
    head_write(exchange, status, content_type, &head);
    text_buffer_append_text(&head, extra_headers);
    text_buffer_append_text(&head,
                            exchange->chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
    struct chunk chunk;
    struct iovec parts[4] = {{.iov_base = head.bytes, .iov_len = head.length}};
    chunk_make(exchange, first, first_bytes, &chunk);
    memcpy(parts + 1, chunk.parts, (size_t)chunk.part_count * sizeof parts[0]);
    if (head.failed)
        http_connection_break(exchange->connection);
    else
        reply_write(exchange, parts, 1 + chunk.part_count);
    text_buffer_fini(&head);
}

void http_reply_send(struct http_exchange *exchange, const char *bytes, size_t count)
{
    must(exchange->begun);
    struct chunk chunk;
    chunk_make(exchange, bytes, count, &chunk);
    if (chunk.part_count > 0)
        reply_write(exchange, chunk.parts, chunk.part_count);
}

void http_reply_end(struct http_exchange *exchange, const char *last, size_t last_bytes)
{
    must(exchange->begun);
    struct chunk chunk;
    struct iovec parts[4];
    chunk_make(exchange, last, last_bytes, &chunk);
    memcpy(parts, chunk.parts, (size_t)chunk.part_count * sizeof parts[0]);
    if (exchange->chunked && exchange->request->method != HTTP_HEAD)
        parts[chunk.part_count++] =
            (struct iovec){.iov_base = (void *)(uintptr_t) "0\r\n\r\n", .iov_len = 5};
    if (chunk.part_count > 0)
        reply_write(exchange, parts, chunk.part_count);
    http_connection_reply_done(exchange->connection);
}

void http_reply_abort(struct http_exchange *exchange)
{
    exchange->gone = NULL;
    http_connection_break(exchange->connection);
}

size_t http_reply_unsent_bytes(const struct http_exchange *exchange)
{
    return http_connection_unsent_bytes(exchange->connection);
}

bool http_reply_is_crowding(const struct http_exchange *exchange)
{
    return http_connection_is_crowding(exchange->connection);
}
