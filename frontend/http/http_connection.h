/*
 * One client's socket: reads requests, passes each to the server's dispatch, writes replies, and
 * notices at once when the client leaves.
 *
 *   accept -> HANDSHAKE (TLS only) -> READING --head complete: admit()--> READING the body
 *   READING   --request complete: dispatch()--> HANDLING --reply complete--> FLUSHING
 *   FLUSHING  --all written, keep-alive--> READING      --all written, else--> LINGERING -> closed
 *   READING   --refused by admit(), malformed, too slow--> an error reply, FLUSHING, closed
 *   any state --client gone--> gone() if HANDLING, closed
 *
 * Private to frontend/http.
 */
#ifndef SHOAL_FRONTEND_HTTP_HTTP_CONNECTION_H
#define SHOAL_FRONTEND_HTTP_HTTP_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "frontend/http/client_table.h"
#include "frontend/http/cors_policy.h"
#include "frontend/http/http_exchange.h"

struct event_base;
struct http_connection;
struct ssl_st;

/* Counters of this server since its start. */
struct http_counters {
    uint64_t connections;                /* accepted */
    uint64_t connections_refused;        /* over max_connections: 503 */
    uint64_t handshakes_failed;          /* TLS: refused by either side, or too slow */
    uint64_t requests;                   /* answered, or abandoned by the client */
    uint64_t requests_malformed;         /* 4xx and 5xx of the parser and of limits on bodies */
    uint64_t requests_too_slow;          /* 408 */
    uint64_t requests_unauthorized;      /* 401 */
    uint64_t requests_foreign;           /* 403: host or origin */
    uint64_t requests_over_client_limit; /* 429 of max_requests_per_client */
};

struct http_connection_config {
    size_t max_head_bytes;
    uint64_t max_body_bytes;
    int handshake_timeout_ms;  /* TLS */
    int request_timeout_ms;    /* from a request's first byte to its last */
    int idle_timeout_ms;       /* between requests, and before the first */
    uint64_t max_unsent_bytes; /* of all connections; beyond it slow readers are cut */
    int write_timeout_ms;      /* a complete reply that the client does not read */
    struct cors_policy cors;
};

/* The server's callbacks for its connections. */
struct http_connection_owner {
    void *server;
    struct http_counters *counters;
    uint64_t *unsent_bytes; /* of all connections: bytes that the kernel has not taken yet */
    /* An exchange starts. The path, if known, decides the shape of errors. */
    void (*begin)(void *server, struct http_exchange *exchange);
    /* The head is complete and no byte of the body is kept yet. False: refused with a reply. */
    bool (*admit)(void *server, struct http_exchange *exchange);
    void (*dispatch)(void *server, struct http_exchange *exchange);
    /* Replies with an error: the bytes are not a request, or it breaks a limit. */
    void (*refuse)(void *server, struct http_exchange *exchange, int status, const char *problem);
    /* Once for each exchange, after which it is not used, whether its reply was written or not. */
    void (*over)(void *server, struct http_exchange *exchange);
    void (*closed)(void *server,
                   struct http_connection *connection); /* the connection is freed next */
    /* A body grew by `bytes` (or shrank if negative); false: the server holds too many bytes. */
    bool (*hold)(void *server, int64_t bytes);
};

struct http_client_socket {
    int fd;             /* non-blocking; owned by the connection from the call on */
    struct ssl_st *ssl; /* likewise; NULL: plain */
    struct client_address client;
};

/* The config and owner outlive the connection. NULL: out of memory, socket closed. */
struct http_connection *http_connection_create(struct event_base *base,
                                               const struct http_client_socket *socket,
                                               const struct http_connection_config *config,
                                               const struct http_connection_owner *owner);
/* Runs the exchange's gone callback and `closed`, then frees. */
void http_connection_destroy(struct http_connection *connection);
bool http_connection_is_idle(const struct http_connection *connection);

/* For http_reply.c. None of these closes or frees before the next loop turn. */
void http_connection_write(struct http_connection *connection, const struct iovec parts[],
                           int part_count);
void http_connection_reply_done(struct http_connection *connection);
void http_connection_close_after_reply(struct http_connection *connection);
void http_connection_break(struct http_connection *connection);
bool http_connection_keeps_alive(const struct http_connection *connection);
size_t http_connection_unsent_bytes(const struct http_connection *connection);
/* True if it has unsent bytes while all connections together have too many. */
bool http_connection_is_crowding(const struct http_connection *connection);
const struct cors_policy *http_connection_cors(const struct http_connection *connection);

/* Links for the server's list. */
struct http_connection_links {
    struct http_connection *next;
    struct http_connection *previous;
};
struct http_connection_links *http_connection_links(struct http_connection *connection);

#endif
