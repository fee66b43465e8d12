/*
 * One request and its reply, as a route's handler sees it.
 *
 * The handler replies at once, or keeps the exchange and replies later, exactly once: with a whole
 * reply, or with http_exchange_begin() … http_exchange_send() … http_exchange_end(). An exchange is
 * over when its reply is complete or when its `gone` callback ran (the client left: end of file,
 * reset); after either it must not be touched. No function here calls back.
 */
#ifndef SHOAL_FRONTEND_HTTP_HTTP_EXCHANGE_H
#define SHOAL_FRONTEND_HTTP_HTTP_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/base/api_error.h"
#include "frontend/base/client_key.h"
#include "frontend/http/http_parser.h"
#include "proto/log.h"

struct http_connection;
struct http_route;

struct http_exchange {
    struct http_connection *connection;
    const struct http_parser *request;
    char request_id[LIMIT_HTTP_REQUEST_ID_BYTES +
                    1]; /* x-request-id: the client's, else a random one */
    void (*gone)(void *context);
    void *gone_context;
    const struct http_route *route; /* for the server: what handles it */
    api_error_writer *write_error;  /* the route's; NULL: errors in OpenAI's shape */
    struct client_key client_key;   /* that it showed */
    bool counted;                   /* for the server: as one of its client's */
    const char *allow;              /* methods of this path, for Allow; static */
    int64_t arrived_us;             /* monotonic: the request's first byte */
    int status;                     /* of the reply; 0 before it */
    uint64_t reply_bytes;           /* head included; a client that left has not read them all */
    bool begun;
    bool chunked;
    bool complete; /* all of the reply is written */
    struct log_field notes[LIMIT_HTTP_NOTES];
    uint32_t note_count;
};

/* Called by the connection for every request whose head is complete (or will never be). */
void http_exchange_init(struct http_exchange *exchange, struct http_connection *connection,
                        const struct http_parser *request, int64_t arrived_us);
/* The exchange is over: writes its line to the log. */
void http_exchange_log(const struct http_exchange *exchange);

/* Adds a field to the exchange's log line, or replaces the one of that name. Its strings are static
 * or outlive the server. Beyond LIMIT_HTTP_NOTES nothing is added. */
void http_exchange_note(struct http_exchange *exchange, struct log_field field);

/* `gone` runs when the client leaves before the reply is complete. */
void http_exchange_on_gone(struct http_exchange *exchange, void (*gone)(void *context),
                           void *context);

/* A whole reply. `content_type` may be NULL when there is no body. */
void http_exchange_reply(struct http_exchange *exchange, int status, const char *content_type,
                         const char *body, size_t body_bytes);
/* The error as JSON, with Retry-After when it has one, and with what a 401 needs. */
void http_exchange_reply_error(struct http_exchange *exchange, const struct api_error *error);

/* A reply of unknown length: chunked, or (HTTP/1.0) up to the connection's end. Its first bytes go
 * out with the head, its last with the end, since a packet costs as much as what is in it; either
 * may be none. */
void http_exchange_begin(struct http_exchange *exchange, int status, const char *content_type,
                         const char *extra_headers, const char *first, size_t first_bytes);
void http_exchange_send(struct http_exchange *exchange, const char *bytes, size_t count);
void http_exchange_end(struct http_exchange *exchange, const char *last, size_t last_bytes);
/* Ends the exchange and the connection without completing the reply: the client sees a cut. */
void http_exchange_abort(struct http_exchange *exchange);
/* Bytes of this connection that the kernel has not taken yet. */
size_t http_exchange_unsent_bytes(const struct http_exchange *exchange);
/* This client reads slowly while the server holds too many bytes for slow readers. */
bool http_exchange_is_crowding(const struct http_exchange *exchange);

#endif
