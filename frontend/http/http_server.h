/*
 * An HTTP/1.1 server on a libevent loop: listens, bounds connections and bodies, finds the route,
 * refuses in the API's own error shape.
 */
#ifndef SHOAL_FRONTEND_HTTP_HTTP_SERVER_H
#define SHOAL_FRONTEND_HTTP_HTTP_SERVER_H

#include <stdint.h>

#include "frontend/http/http_connection.h"

struct http_server;

struct http_route {
    const char *path;
    bool prefix;             /* also every path below `path`/ */
    enum http_method method; /* HTTP_GET answers HEAD too */
    void (*handle)(void *context, struct http_exchange *exchange);
};

struct http_server_config {
    const char *host; /* numeric or a name; all must outlive the server */
    uint16_t port;    /* 0: any free one */
    uint32_t max_connections;
    uint64_t max_held_body_bytes; /* of all requests that are arriving */
    struct http_connection_config connection;
    const struct http_route *routes;
    size_t route_count;
    void *route_context;
};

/* Listens. RESULT_IO with words when the address cannot be had. */
enum result http_server_create(struct event_base *base, const struct http_server_config *config,
                               struct http_server **server,
                               struct error_text *error) RESULT_CHECKED;
/* Closes everything; gone callbacks run. */
void http_server_destroy(struct http_server *server);

uint16_t http_server_port(const struct http_server *server);
uint32_t http_server_connections(const struct http_server *server);
/* Connections with a request in hand or a reply not wholly written. */
uint32_t http_server_busy_connections(const struct http_server *server);

#endif
