/*
 * An HTTP/1.1 server on a libevent loop: listens, limits connections and bodies, finds the route,
 * and refuses in the API's error shape.
 */
#ifndef SHOAL_FRONTEND_HTTP_HTTP_SERVER_H
#define SHOAL_FRONTEND_HTTP_HTTP_SERVER_H

#include <stdint.h>

#include "frontend/http/http_connection.h"
#include "frontend/http/http_listener.h"
#include "frontend/http/origin_policy.h"

struct http_server;

struct api_keys;
struct tls_context;

/* Several rows may share a path, each with its own method. A path that ends with '/' stands for every path below it, "/" only for
 * itself. */
struct http_route {
    const char *path;
    enum http_method method;       /* HTTP_GET answers HEAD too */
    bool open;                     /* needs no key */
    bool admin;                    /* needs a key with the attribute admin, where there are keys */
    api_error_writer *write_error; /* NULL: in OpenAI's shape */
    const void *row;               /* for the handler; the server does not read it */
    void (*handle)(void *context, struct http_exchange *exchange);
};

/* All that it points at must outlive the server. */
struct http_server_config {
    struct http_listener_config listen; /* its context and callback are set by the server */
    uint32_t max_connections;
    uint32_t max_requests_per_client; /* POST requests in progress per address; 0: no limit */
    uint64_t max_held_body_bytes;     /* of all requests that are arriving */
    const struct api_keys *keys;      /* NULL: every client is allowed */
    const struct tls_context *tls;    /* NULL: plain */
    /* Allowed hosts; enforced (set by the server) without keys on a loopback address. Its cors is
     * `connection`'s. */
    struct origin_policy origins;
    struct http_connection_config connection;
    const struct http_route *routes;
    size_t route_count;
    void *route_context;
};

/* Listens. RESULT_IO with a message if the address is not available. */
enum result http_server_create(struct event_base *base, const struct http_server_config *config,
                               struct http_server **server,
                               struct error_text *error) RESULT_CHECKED;
/* Closes everything; gone callbacks run. */
void http_server_destroy(struct http_server *server);

/* Accepts no connections, which wait, and closes each one after its next reply, until http_server_accept(). */
void http_server_pause(struct http_server *server);
/* With listen.paused, or after http_server_pause(): accepts connections from now on. */
void http_server_accept(struct http_server *server);
/* The listening sockets, still owned by the server; at most LIMIT_LISTEN_SOCKETS. Returns their number. */
size_t http_server_sockets(const struct http_server *server, int *fds);
/* Accepts no more connections, and closes each one after its next reply. */
void http_server_stop_accepting(struct http_server *server);

uint16_t http_server_port(const struct http_server *server);
uint32_t http_server_connections(const struct http_server *server);
/* Connections with a request in progress or a reply not completely written. */
uint32_t http_server_busy_connections(const struct http_server *server);
/* Bytes of replies held in this process for slow readers. */
uint64_t http_server_unsent_bytes(const struct http_server *server);
const struct http_counters *http_server_counters(const struct http_server *server);

#endif
