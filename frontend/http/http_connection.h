/*
 * One client's socket: reads requests, hands each to the server's dispatch, writes replies, notices
 * at once when the client leaves.
 *
 *   accept -> READING --request complete--> HANDLING --reply complete--> FLUSHING --all written-->
 * READING (keep-alive) |                             |                            | | bad request,
 * too slow       | client gone: gone()        +--close asked--> LINGERING -> closed
 *                +--error reply--> FLUSHING    +-> closed
 *
 * Private to frontend/http.
 */
#ifndef SHOAL_FRONTEND_HTTP_HTTP_CONNECTION_H
#define SHOAL_FRONTEND_HTTP_HTTP_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "frontend/http/http_exchange.h"

struct event_base;
struct http_connection;

struct http_connection_config {
    size_t max_head_bytes;
    uint64_t max_body_bytes;
    int request_timeout_ms; /* from a request's first byte to its last */
    int idle_timeout_ms;    /* between requests, and before the first */
    int write_timeout_ms;   /* a complete reply that the client does not read */
};

/* What the server does for its connections. */
struct http_connection_owner {
    void *server;
    void (*dispatch)(void *server, struct http_exchange *exchange);
    void (*closed)(void *server, struct http_connection *connection); /* it is freed next */
    /* A body grew by this many bytes (or shrank); false: the server holds too many, refuse. */
    bool (*hold)(void *server, int64_t bytes);
};

/* Owns `fd` (non-blocking). The config and owner outlive the connection. NULL: out of memory, fd
 * closed. */
struct http_connection *http_connection_create(struct event_base *base, int fd,
                                               const struct http_connection_config *config,
                                               const struct http_connection_owner *owner);
/* Runs the exchange's gone callback and `closed`; frees. */
void http_connection_destroy(struct http_connection *connection);
bool http_connection_is_idle(const struct http_connection *connection);

/* For http_exchange.c. None of these closes or frees at once. */
void http_connection_write(struct http_connection *connection, const struct iovec parts[],
                           int part_count);
void http_connection_reply_done(struct http_connection *connection);
void http_connection_close_after_reply(struct http_connection *connection);
void http_connection_break(struct http_connection *connection);
bool http_connection_keeps_alive(const struct http_connection *connection);
size_t http_connection_unsent_bytes(const struct http_connection *connection);

/* Links for the server's list. */
struct http_connection_links {
    struct http_connection *next;
    struct http_connection *previous;
};
struct http_connection_links *http_connection_links(struct http_connection *connection);

#endif
