/*
 * One request and the state of its reply (http_reply.h), as a route's handler sees it.
 *
 * An exchange is over when its reply is complete or when its `gone` callback ran (the client left:
 * end of file, reset); the handler must not use it after that.
 */
#ifndef SHOAL_FRONTEND_HTTP_HTTP_EXCHANGE_H
#define SHOAL_FRONTEND_HTTP_HTTP_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/base/api_error.h"
#include "frontend/base/body_coding.h"
#include "frontend/base/client_key.h"
#include "frontend/base/text_buffer.h"
#include "frontend/http/client_table.h"
#include "frontend/http/http_parser.h"
#include "proto/log.h"

struct http_connection;
struct key_usage;
struct http_route;

struct http_exchange {
    struct http_connection *connection;
    const struct client_address *client;
    struct http_parser *request;
    char request_id[LIMIT_HTTP_REQUEST_ID_BYTES +
                    1]; /* x-request-id: the client's, otherwise a random one */
    void (*gone)(void *context);
    void *gone_context;
    const struct http_route *route; /* that handles it; set by the server */
    api_error_writer *write_error;  /* the route's; NULL: errors in OpenAI's shape */
    struct client_key client_key;   /* of the API key in the request */
    struct client_rights rights;    /* of that key; without keys every client is an administrator */
    struct key_usage *usage;        /* its reply reports the key's limits; NULL: none */
    bool counted;                   /* in the client table; set by the server */
    const char *tool_format;        /* for x-shoal-tool-format; static; NULL: not sent */
    struct text_buffer headers;     /* further lines of the reply's head; http_exchange_header() */
    const char *allow;              /* methods of this path, for Allow; static */
    int64_t arrived_us;             /* monotonic: the request's first byte */
    int status;                     /* of the reply; 0 before it */
    uint64_t reply_bytes;           /* with the head; a client that left has not read all */
    bool begun;
    bool chunked;
    bool complete; /* all of the reply is written */
    struct log_field notes[LIMIT_HTTP_NOTES];
    uint32_t note_count;
};

/* Called for every request whose head is complete or invalid. */
void http_exchange_init(struct http_exchange *exchange, struct http_connection *connection,
                        const struct client_address *client, struct http_parser *request,
                        int64_t arrived_us);
/* Adds a header to the reply, if that has not begun. `value` is visible ASCII and blanks. */
void http_exchange_header(struct http_exchange *exchange, const char *name, const char *value,
                          size_t value_bytes);
void http_exchange_fini(struct http_exchange *exchange);
/* Writes the log line of an exchange that is over. */
void http_exchange_log(const struct http_exchange *exchange);

/* Adds a field to the exchange's log line, or replaces the one of that name. Its strings are static
 * or outlive the server. Beyond LIMIT_HTTP_NOTES nothing is added. */
void http_exchange_note(struct http_exchange *exchange, struct log_field field);

/* The coding of the request's body; the server refuses others before a handler is called. */
enum body_coding http_exchange_coding(const struct http_exchange *exchange);

/* Moves the request's body out; the caller frees. NULL: there is none. */
char *http_exchange_take_body(struct http_exchange *exchange, size_t *body_bytes);

/* Sets the callback for a client that leaves before the reply is complete. */
void http_exchange_on_gone(struct http_exchange *exchange, void (*gone)(void *context),
                           void *context);

#endif
