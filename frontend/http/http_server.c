/*
 * Listening, and the way from a request to its handler.
 *
 * Routes are a table; a path that no row has is a 404, a row that lacks the method a 405 with
 * Allow. HEAD is answered by the GET handler (the exchange drops the body), OPTIONS by the table
 * itself. Over max_connections a client gets a short 503 and is closed, so that the loop's work and
 * the process's descriptors stay bounded; when descriptors run out all the same, accepting pauses
 * instead of spinning.
 */
#include "frontend/http/http_server.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/log.h"
#include "proto/must.h"

#define LISTEN_BACKLOG  1024
#define ACCEPT_PAUSE_MS 100

struct http_server {
    struct http_server_config config;
    struct http_connection_owner owner;
    struct event_base *base;
    struct evconnlistener *listener;
    struct event *resume;
    struct http_connection *first;
    uint32_t connection_count;
    int64_t held_body_bytes;
    uint16_t port;
};

/* --- routes ---------------------------------------------------------------------------------- */

static bool route_has_path(const struct http_route *route, const char *path)
{
    size_t bytes = strlen(route->path);
    if (strncmp(route->path, path, bytes) != 0)
        return false;
    return path[bytes] == '\0' || (route->prefix && path[bytes] == '/' && path[bytes + 1] != '\0');
}

static const char *route_allow(const struct http_route *route)
{
    return route->method == HTTP_GET ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

static void reply_not_found(struct http_exchange *exchange)
{
    struct api_error error;
    (void)api_error_set(&error, RESULT_NOT_FOUND, 404, "unknown_url", "unknown request URL: %s %s",
                        exchange->request->method_name, exchange->request->path);
    http_exchange_reply_error(exchange, &error);
}

static void reply_wrong_method(struct http_exchange *exchange)
{
    struct api_error error;
    (void)api_error_set(&error, RESULT_UNSUPPORTED, 405, "method_not_allowed",
                        "%s is not allowed for %s", exchange->request->method_name,
                        exchange->request->path);
    http_exchange_reply_error(exchange, &error);
}

static void dispatch(void *context, struct http_exchange *exchange)
{
    struct http_server *server = context;
    enum http_method method = exchange->request->method;
    const struct http_route *found = NULL;
    for (size_t i = 0; i < server->config.route_count && !found; i++) {
        if (route_has_path(&server->config.routes[i], exchange->request->path))
            found = &server->config.routes[i];
    }
    if (!found && !(method == HTTP_OPTIONS && strcmp(exchange->request->path, "*") == 0)) {
        reply_not_found(exchange);
        return;
    }
    bool fits =
        found && (method == found->method || (method == HTTP_HEAD && found->method == HTTP_GET));
    if (!fits)
        exchange->allow = found ? route_allow(found) : "GET, HEAD, POST, OPTIONS";
    if (fits)
        found->handle(server->config.route_context, exchange);
    else if (method == HTTP_OPTIONS)
        http_exchange_reply(exchange, 204, NULL, "", 0);
    else
        reply_wrong_method(exchange);
}

/* --- connections ----------------------------------------------------------------------------- */

static void connection_closed(void *context, struct http_connection *connection)
{
    struct http_server *server = context;
    struct http_connection_links *links = http_connection_links(connection);
    if (links->previous)
        http_connection_links(links->previous)->next = links->next;
    else
        server->first = links->next;
    if (links->next)
        http_connection_links(links->next)->previous = links->previous;
    server->connection_count--;
}

static bool body_hold(void *context, int64_t bytes)
{
    struct http_server *server = context;
    server->held_body_bytes += bytes;
    return bytes <= 0 || (uint64_t)server->held_body_bytes <= server->config.max_held_body_bytes;
}

static void refuse_connection(int fd)
{
    static const char body[] =
        "{\"error\":{\"message\":\"too many connections\",\"type\":"
        "\"server_error\",\"param\":null,\"code\":\"too_many_connections\"}}";
    char reply[512];
    int bytes = snprintf(reply, sizeof reply,
                         "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                         "Retry-After: 1\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                         sizeof body - 1, body);
    (void)!send(fd, reply, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
                      int address_bytes, void *context)
{
    (void)listener;
    (void)address;
    (void)address_bytes;
    struct http_server *server = context;
    if (server->connection_count >= server->config.max_connections) {
        refuse_connection(fd);
        return;
    }
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct http_connection *connection =
        http_connection_create(server->base, fd, &server->config.connection, &server->owner);
    if (!connection)
        return;
    struct http_connection_links *links = http_connection_links(connection);
    links->next = server->first;
    if (server->first)
        http_connection_links(server->first)->previous = connection;
    server->first = connection;
    server->connection_count++;
}

static void on_accept_error(struct evconnlistener *listener, void *context)
{
    struct http_server *server = context;
    struct timeval pause = {.tv_usec = ACCEPT_PAUSE_MS * 1000};
    log_warn("accepting connections pauses: %s", strerror(errno));
    evconnlistener_disable(listener);
    event_add(server->resume, &pause);
}

static void on_resume(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct http_server *server = context;
    evconnlistener_enable(server->listener);
}

/* --- listening ------------------------------------------------------------------------------- */

static struct evconnlistener *listen_on(struct http_server *server, const struct addrinfo *address)
{
    return evconnlistener_new_bind(server->base, on_accept, server,
                                   LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC |
                                       LEV_OPT_REUSEABLE,
                                   LISTEN_BACKLOG, address->ai_addr, (int)address->ai_addrlen);
}

static enum result server_listen(struct http_server *server, struct error_text *error)
{
    char port[8];
    snprintf(port, sizeof port, "%u", server->config.port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *addresses = NULL;
    int status = getaddrinfo(server->config.host, port, &hints, &addresses);
    if (status != 0)
        return error_set(error, RESULT_IO, "cannot listen on %s: %s", server->config.host,
                         gai_strerror(status));
    for (struct addrinfo *at = addresses; at && !server->listener; at = at->ai_next)
        server->listener = listen_on(server, at);
    int saved = errno;
    freeaddrinfo(addresses);
    if (!server->listener)
        return error_set(error, RESULT_IO, "cannot listen on %s port %u: %s", server->config.host,
                         server->config.port, strerror(saved));
    evconnlistener_set_error_cb(server->listener, on_accept_error);

    struct sockaddr_storage bound = {0};
    socklen_t bound_bytes = sizeof bound;
    must(getsockname(evconnlistener_get_fd(server->listener), (struct sockaddr *)&bound,
                     &bound_bytes) == 0);
    server->port = bound.ss_family == AF_INET6
                       ? ntohs(((struct sockaddr_in6 *)(void *)&bound)->sin6_port)
                       : ntohs(((struct sockaddr_in *)(void *)&bound)->sin_port);
    return RESULT_OK;
}

enum result http_server_create(struct event_base *base, const struct http_server_config *config,
                               struct http_server **server, struct error_text *error)
{
    struct http_server *made = must_alloc(1, sizeof *made);
    made->config = *config;
    made->base = base;
    made->owner = (struct http_connection_owner){
        .server = made, .dispatch = dispatch, .closed = connection_closed, .hold = body_hold};
    made->resume = event_new(base, -1, 0, on_resume, made);
    must(made->resume != NULL);
    enum result result = server_listen(made, error);
    if (result != RESULT_OK) {
        http_server_destroy(made);
        return result;
    }
    *server = made;
    return RESULT_OK;
}

void http_server_destroy(struct http_server *server)
{
    if (!server)
        return;
    if (server->listener)
        evconnlistener_free(server->listener);
    while (server->first)
        http_connection_destroy(server->first);
    event_free(server->resume);
    free(server);
}

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

uint32_t http_server_connections(const struct http_server *server)
{
    return server->connection_count;
}

uint32_t http_server_busy_connections(const struct http_server *server)
{
    uint32_t busy = 0;
    for (struct http_connection *at = server->first; at; at = http_connection_links(at)->next)
        busy += !http_connection_is_idle(at);
    return busy;
}
