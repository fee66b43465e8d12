/*
 * Replies as bytes: status line, the few headers that every reply carries, the body as one piece or
 * as chunks.
 */
#include "frontend/http/http_exchange.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <time.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/http/http_connection.h"
#include "proto/must.h"

#define STATUS_CLIENT_LEFT 499 /* in the log only: no reply was begun */
#define FIELDS             8u  /* of the log line, without notes */

static const struct {
    int status;
    const char *phrase;
} phrases[] = {
    {200, "OK"},
    {204, "No Content"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {417, "Expectation Failed"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {529, "Overloaded"}, /* Anthropic's; unassigned */
};

static const char *status_phrase(int status)
{
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        if (phrases[i].status == status)
            return phrases[i].phrase;
    }
    return "Unknown";
}

static bool request_id_is_usable(const char *id)
{
    size_t length = id ? strlen(id) : 0;
    if (length == 0 || length > LIMIT_HTTP_REQUEST_ID_BYTES)
        return false;
    for (; *id; id++) {
        if (*id <= 0x20 || *id >= 0x7f)
            return false;
    }
    return true;
}

void http_exchange_init(struct http_exchange *exchange, struct http_connection *connection,
                        const struct http_parser *request, int64_t arrived_us)
{
    *exchange = (struct http_exchange){
        .connection = connection, .request = request, .arrived_us = arrived_us};
    const char *given = http_parser_header(request, "x-request-id");
    if (request_id_is_usable(given)) {
        strcpy(exchange->request_id, given);
        return;
    }
    uint64_t random = 0;
    must(getrandom(&random, sizeof random, 0) == sizeof random);
    snprintf(exchange->request_id, sizeof exchange->request_id, "req-%016llx",
             (unsigned long long)random);
}

void http_exchange_on_gone(struct http_exchange *exchange, void (*gone)(void *context),
                           void *context)
{
    exchange->gone = gone;
    exchange->gone_context = context;
}

void http_exchange_note(struct http_exchange *exchange, struct log_field field)
{
    uint32_t at = 0;
    while (at < exchange->note_count && strcmp(exchange->notes[at].name, field.name) != 0)
        at++;
    if (at == LIMIT_HTTP_NOTES)
        return;
    exchange->notes[at] = field;
    if (at == exchange->note_count)
        exchange->note_count++;
}

void http_exchange_log(const struct http_exchange *exchange)
{
    char client[CLIENT_ADDRESS_TEXT];
    client_address_write(http_connection_client(exchange->connection), client);
    double duration_ms = (double)(monotonic_clock_us() - exchange->arrived_us) / 1000;
    struct log_field fields[FIELDS + LIMIT_HTTP_NOTES] = {
        LOG_TEXT("request_id", exchange->request_id),
        LOG_TEXT("client", client),
        LOG_TEXT("method", exchange->request->method_name),
        LOG_TEXT("path", exchange->request->path),
        LOG_WHOLE("status", exchange->status ? exchange->status : STATUS_CLIENT_LEFT),
        LOG_REAL("duration_ms", duration_ms),
        LOG_WHOLE("reply_bytes", exchange->reply_bytes),
        LOG_TEXT("cut", exchange->complete ? NULL : "yes"),
    };
    memcpy(fields + FIELDS, exchange->notes, exchange->note_count * sizeof fields[0]);
    log_event(LOG_INFO, "request", fields, FIELDS + exchange->note_count);
}

/* Every byte of a reply goes through here. */
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
    const char *id = exchange->request_id; /* under OpenAI's name and under Anthropic's */
    text_buffer_append_format(
        out, "HTTP/1.1 %d %s\r\nDate: %s\r\nx-request-id: %s\r\nrequest-id: %s\r\n", status,
        status_phrase(status), date, id, id);
    if (content_type)
        text_buffer_append_format(out, "Content-Type: %s\r\n", content_type);
    if (exchange->allow)
        text_buffer_append_format(out, "Allow: %s\r\n", exchange->allow);
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
    if (status != 204)
        text_buffer_append_format(&head, "Content-Length: %zu\r\n", body_bytes);
    text_buffer_append_text(&head, "\r\n");
    if (head.failed) {
        text_buffer_fini(&head);
        http_exchange_abort(exchange);
        return;
    }
    bool shows_body = exchange->request->method != HTTP_HEAD && body_bytes > 0;
    struct iovec parts[2] = {{.iov_base = head.bytes, .iov_len = head.length},
                             {.iov_base = (void *)(uintptr_t)body, .iov_len = body_bytes}};
    reply_write(exchange, parts, shows_body ? 2 : 1);
    text_buffer_fini(&head);
    http_connection_reply_done(exchange->connection);
}

void http_exchange_reply(struct http_exchange *exchange, int status, const char *content_type,
                         const char *body, size_t body_bytes)
{
    whole_reply(exchange, status, content_type, "", body, body_bytes);
}

void http_exchange_reply_error(struct http_exchange *exchange, const struct api_error *error)
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
        http_exchange_abort(exchange);
    else
        whole_reply(exchange, status, "application/json", extra, body.bytes, body.length);
    text_buffer_fini(&body);
}

/* A chunk on its way, as parts of a write. */
struct chunk {
    char size[24];
    struct iovec parts[3];
    int part_count; /* none of no bytes: an empty chunk would end the reply */
};

static void chunk_make(const struct http_exchange *exchange, const char *bytes, size_t count,
                       struct chunk *chunk)
{
    struct iovec body = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = count};
    chunk->part_count = 0;
    if (count == 0)
        return;
    if (!exchange->chunked) {
        chunk->parts[chunk->part_count++] = body;
        return;
    }
    int size_bytes = snprintf(chunk->size, sizeof chunk->size, "%zx\r\n", count);
    chunk->parts[chunk->part_count++] =
        (struct iovec){.iov_base = chunk->size, .iov_len = (size_t)size_bytes};
    chunk->parts[chunk->part_count++] = body;
    chunk->parts[chunk->part_count++] =
        (struct iovec){.iov_base = (void *)(uintptr_t) "\r\n", .iov_len = 2};
}

void http_exchange_begin(struct http_exchange *exchange, int status, const char *content_type,
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

void http_exchange_send(struct http_exchange *exchange, const char *bytes, size_t count)
{
    must(exchange->begun);
    struct chunk chunk;
    chunk_make(exchange, bytes, count, &chunk);
    if (chunk.part_count > 0)
        reply_write(exchange, chunk.parts, chunk.part_count);
}

void http_exchange_end(struct http_exchange *exchange, const char *last, size_t last_bytes)
{
    must(exchange->begun);
    struct chunk chunk;
    struct iovec parts[4];
    chunk_make(exchange, last, last_bytes, &chunk);
    memcpy(parts, chunk.parts, (size_t)chunk.part_count * sizeof parts[0]);
    if (exchange->chunked)
        parts[chunk.part_count++] =
            (struct iovec){.iov_base = (void *)(uintptr_t) "0\r\n\r\n", .iov_len = 5};
    if (chunk.part_count > 0)
        reply_write(exchange, parts, chunk.part_count);
    http_connection_reply_done(exchange->connection);
}

void http_exchange_abort(struct http_exchange *exchange)
{
    exchange->gone = NULL;
    http_connection_break(exchange->connection);
}

size_t http_exchange_unsent_bytes(const struct http_exchange *exchange)
{
    return http_connection_unsent_bytes(exchange->connection);
}

bool http_exchange_is_crowding(const struct http_exchange *exchange)
{
    return http_connection_is_crowding(exchange->connection);
}
