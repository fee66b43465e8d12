/*
 * Request ids and the log line of a request.
 */
#include "frontend/http/http_exchange.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "frontend/base/monotonic_clock.h"
#include "proto/must.h"

#define STATUS_CLIENT_LEFT 499 /* in the log only: the client left before a reply began */
#define FIELDS             8u  /* of the log line, without notes */

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
                        const struct client_address *client, struct http_parser *request,
                        int64_t arrived_us)
{
    *exchange = (struct http_exchange){
        .connection = connection, .client = client, .request = request, .arrived_us = arrived_us};
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

void http_exchange_header(struct http_exchange *exchange, const char *name, const char *value,
                          size_t value_bytes)
{
    struct text_buffer *headers = &exchange->headers;
    size_t before = headers->length;
    text_buffer_append_format(headers, "%s: ", name);
    text_buffer_append(headers, value, value_bytes);
    text_buffer_append_text(headers, "\r\n");
    if (headers->length > LIMIT_HTTP_ADDED_HEADER_BYTES)
        text_buffer_cut(headers, before);
}

void http_exchange_fini(struct http_exchange *exchange)
{
    text_buffer_fini(&exchange->headers);
}

char *http_exchange_take_body(struct http_exchange *exchange, size_t *body_bytes)
{
    return http_parser_take_body(exchange->request, body_bytes);
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
    client_address_write(exchange->client, client);
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

enum body_coding http_exchange_coding(const struct http_exchange *exchange)
{
    enum body_coding coding;
    must(body_coding_find(http_parser_header(exchange->request, "content-encoding"), &coding) ==
         RESULT_OK);
    return coding;
}
