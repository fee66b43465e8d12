/*
 * From a connection to a request's handler. All checks are made before a byte of the body is kept:
 * API key, path, method, and the number of requests in progress per client.
 *
 * Routes are a table. A path without a row is a 404; a path without a row for the method is a 405
 * with Allow. HEAD is answered by the GET handler (the exchange drops the body). OPTIONS is
 * answered from the table and without a key, because browsers ask before they send one. Without its
 * key a client learns nothing, not even which paths exist.
 *
 * Over max_connections a client gets a short 503 and is closed, so that the work of the loop and
 * the descriptors of the process stay bounded.
 */
#include "frontend/http/http_server.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/http/api_keys.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/tls_context.h"
#include "proto/must.h"

/* The kernel buffers about this many bytes that the network has not taken; the rest stays in this
 * process, where it is counted and limited. The default is some megabytes per connection. */
#define KERNEL_UNSENT_BYTES 16384

struct http_server {
    struct http_server_config config;
    struct http_connection_owner owner;
    struct http_counters counters;
    struct event_base *base;
    struct http_listener *listener;
    struct client_table *clients; /* NULL: not counted */
    struct http_connection *first;
    uint32_t connection_count;
    int64_t held_body_bytes;
    uint64_t unsent_bytes;
    bool stopping; /* accepts no more connections */
};

/* --- routes ---------------------------------------------------------------------------------- */

static bool route_has_path(const struct http_route *route, const char *path)
{
    size_t bytes = strlen(route->path);
    if (strncmp(route->path, path, bytes) != 0)
        return false;
    if (bytes == 1) /* "/" */
        return path[1] == '\0';
    if (route->path[bytes - 1] == '/')
        return path[bytes] != '\0';
    return path[bytes] == '\0';
}

static bool route_has_method(const struct http_route *route, enum http_method method)
{
    return method == route->method || (method == HTTP_HEAD && route->method == HTTP_GET);
}

/* The row of this path and method; without one, the first row of the path; otherwise NULL. */
static const struct http_route *route_find(const struct http_server *server, const char *path,
                                           enum http_method method)
{
    const struct http_route *found = NULL;
    for (size_t i = 0; i < server->config.route_count; i++) {
        const struct http_route *route = &server->config.routes[i];
        if (!route_has_path(route, path))
            continue;
        if (route_has_method(route, method))
            return route;
        if (!found)
            found = route;
    }
    return found;
}

/* Methods of the path's rows, for the Allow header. */
static const char *path_allow(const struct http_server *server, const char *path)
{
    static const char *const words[8] = {"OPTIONS",
                                         "GET, HEAD, OPTIONS",
                                         "POST, OPTIONS",
                                         "GET, HEAD, POST, OPTIONS",
                                         "DELETE, OPTIONS",
                                         "GET, HEAD, DELETE, OPTIONS",
                                         "POST, DELETE, OPTIONS",
                                         "GET, HEAD, POST, DELETE, OPTIONS"};
    unsigned methods = 0;
    for (size_t i = 0; i < server->config.route_count; i++) {
        const struct http_route *route = &server->config.routes[i];
        if (!route_has_path(route, path))
            continue;
        methods |= route->method == HTTP_GET ? 1u : route->method == HTTP_POST ? 2u : 4u;
    }
    return words[methods];
}

static void reply_not_found(struct http_exchange *exchange)
{
    struct api_error error;
    (void)api_error_set(&error, RESULT_NOT_FOUND, 404, "unknown_url", "unknown request URL: %s %s",
                        exchange->request->method_name, exchange->request->path);
    http_reply_error(exchange, &error);
}

static void reply_wrong_method(struct http_exchange *exchange)
{
    struct api_error error;
    (void)api_error_set(&error, RESULT_UNSUPPORTED, 405, "method_not_allowed",
                        "%s is not allowed for %s", exchange->request->method_name,
                        exchange->request->path);
    http_reply_error(exchange, &error);
}

static void reply_unauthorized(struct http_server *server, struct http_exchange *exchange)
{
    struct api_error error;
    server->counters.requests_unauthorized++;
    (void)api_error_set(&error, RESULT_INVALID, 401, "invalid_api_key",
                        "this server needs an API key: Authorization: Bearer KEY");
    http_reply_error(exchange, &error);
}

static void reply_forbidden(struct http_exchange *exchange)
{
    struct api_error error;
    (void)api_error_set(
        &error, RESULT_INVALID, 403, "admin_key_required",
        "%s affects other clients and needs a key with the attribute admin (--api-key-file)",
        exchange->request->path);
    http_reply_error(exchange, &error);
}

static void reply_over_client_limit(struct http_server *server, struct http_exchange *exchange)
{
    struct api_error error;
    server->counters.requests_over_client_limit++;
    (void)api_error_set(&error, RESULT_FULL, 429, "too_many_requests",
                        "%u requests of your address are in progress; wait for one to end",
                        server->config.max_requests_per_client);
    error.retry_after_s = 1;
    http_reply_error(exchange, &error);
}

/* True if the body's coding is understood; otherwise replies. */
static bool is_decodable(struct http_exchange *exchange)
{
    struct api_error error;
    enum body_coding coding;
    const char *header = http_parser_header(exchange->request, "content-encoding");
    if (body_coding_find(header, &coding) == RESULT_OK)
        return true;
    (void)api_error_set(&error, RESULT_UNSUPPORTED, 415, "unsupported_content_encoding",
                        "Content-Encoding '%.40s' is not supported; supported: %s", header,
                        body_coding_names);
    http_reply_error(exchange, &error);
    return false;
}

static void reply_foreign(struct http_server *server, struct http_exchange *exchange,
                          enum origin_verdict verdict)
{
    struct api_error error;
    server->counters.requests_foreign++;
    if (verdict == ORIGIN_FOREIGN_HOST)
        (void)api_error_set(&error, RESULT_INVALID, 403, "foreign_host",
                            "this server has no API key and answers to names of this machine only, "
                            "not to '%.100s'; "
                            "start it with --allowed-host NAME or with a key",
                            exchange->request->authority);
    else
        (void)api_error_set(&error, RESULT_INVALID, 403, "foreign_origin",
                            "this server has no API key and does not answer web pages of other "
                            "origins; start it with "
                            "--cors-origin ORIGIN or with a key");
    http_reply_error(exchange, &error);
}

/* --- one request ----------------------------------------------------------------------------- */

static bool is_authorized(const struct http_server *server, struct http_exchange *exchange)
{
    exchange->rights.admin = !server->config.keys;
    return !server->config.keys || (exchange->route && exchange->route->open) ||
           exchange->request->method == HTTP_OPTIONS ||
           api_keys_admit(server->config.keys, exchange->request, &exchange->client_key,
                          &exchange->rights);
}

/* True if there is a route for path and method; otherwise replies, also to OPTIONS. */
static bool is_routed(const struct http_server *server, struct http_exchange *exchange)
{
    const struct http_route *route = exchange->route;
    enum http_method method = exchange->request->method;
    if (!route && !(method == HTTP_OPTIONS && strcmp(exchange->request->path, "*") == 0)) {
        reply_not_found(exchange);
        return false;
    }
    if (route && route_has_method(route, method))
        return true;
    exchange->allow =
        route ? path_allow(server, exchange->request->path) : "GET, HEAD, POST, DELETE, OPTIONS";
    if (method == HTTP_OPTIONS)
        http_reply_whole(exchange, 204, NULL, "", 0);
    else
        reply_wrong_method(exchange);
    return false;
}

/* Error writer for a path: its row's, or that of a row whose path is above it. */
static api_error_writer *error_writer_find(const struct http_server *server, const char *path)
{
    for (size_t i = 0; i < server->config.route_count; i++) {
        const struct http_route *route = &server->config.routes[i];
        size_t bytes = strlen(route->path);
        if (route->write_error && strncmp(route->path, path, bytes) == 0 &&
            (path[bytes] == '\0' || path[bytes] == '/'))
            return route->write_error;
    }
    return NULL;
}

static void exchange_begin(void *context, struct http_exchange *exchange)
{
    struct http_server *server = context;
    const struct http_parser *request = exchange->request;
    if (!request->path)
        return; /* not even a request line arrived */
    exchange->route = route_find(server, request->path, request->method);
    exchange->write_error =
        exchange->route ? exchange->route->write_error : error_writer_find(server, request->path);
}

static bool admit(void *context, struct http_exchange *exchange)
{
    struct http_server *server = context;
    enum origin_verdict verdict = origin_policy_check(&server->config.origins, exchange->request);
    if (verdict != ORIGIN_ALLOWED) {
        reply_foreign(server, exchange, verdict);
        return false;
    }
    if (!is_authorized(server, exchange)) {
        reply_unauthorized(server, exchange);
        return false;
    }
    if (!is_routed(server, exchange))
        return false;
    if (exchange->route->admin && !exchange->rights.admin) {
        reply_forbidden(exchange);
        return false;
    }
    if (!is_decodable(exchange))
        return false;
    if (!server->clients || exchange->request->method != HTTP_POST)
        return true;
    exchange->counted = client_table_take(server->clients, exchange->client);
    if (!exchange->counted)
        reply_over_client_limit(server, exchange);
    return exchange->counted;
}

static void dispatch(void *context, struct http_exchange *exchange)
{
    struct http_server *server = context;
    if (server->stopping)
        http_connection_close_after_reply(exchange->connection);
    exchange->route->handle(server->config.route_context, exchange);
}

static void refuse(void *context, struct http_exchange *exchange, int status, const char *problem)
{
    (void)context;
    struct api_error error;
    (void)api_error_set(&error, RESULT_INVALID, status, NULL, "%s", problem);
    http_reply_error(exchange, &error);
}

static void exchange_over(void *context, struct http_exchange *exchange)
{
    struct http_server *server = context;
    if (exchange->counted)
        client_table_give(server->clients, exchange->client);
    exchange->counted = false;
    http_exchange_log(exchange);
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

static void refuse_connection(struct http_server *server, int fd)
{
    static const char body[] =
        "{\"error\":{\"message\":\"too many connections\",\"type\":"
        "\"server_error\",\"param\":null,\"code\":\"too_many_connections\"}}";
    char reply[512];
    server->counters.connections_refused++;
    int bytes = snprintf(reply, sizeof reply,
                         "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                         "Retry-After: 1\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                         sizeof body - 1, body);
    if (!server->config.tls) /* a handshake costs more than a refusal is worth */
        (void)!send(fd, reply, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

static void on_arrived(void *context, int fd, const struct sockaddr *address)
{
    struct http_server *server = context;
    if (server->connection_count >= server->config.max_connections) {
        refuse_connection(server, fd);
        return;
    }
    struct http_client_socket client = {.fd = fd};
    int on = 1;
    client_address_set(&client.client, address);
    if (client.client.known) {
        int most = KERNEL_UNSENT_BYTES;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
    }
    if (server->config.tls && !(client.ssl = tls_context_accept(server->config.tls, fd))) {
        close(fd);
        return;
    }
    struct http_connection *connection =
        http_connection_create(server->base, &client, &server->config.connection, &server->owner);
    if (!connection)
        return;
    struct http_connection_links *links = http_connection_links(connection);
    links->next = server->first;
    if (server->first)
        http_connection_links(server->first)->previous = connection;
    server->first = connection;
    server->connection_count++;
    server->counters.connections++;
}

/* --- life ------------------------------------------------------------------------------------ */

enum result http_server_create(struct event_base *base, const struct http_server_config *config,
                               struct http_server **server, struct error_text *error)
{
    struct http_server *made = must_alloc(1, sizeof *made);
    made->config = *config;
    made->base = base;
    made->owner = (struct http_connection_owner){.server = made,
                                                 .counters = &made->counters,
                                                 .unsent_bytes = &made->unsent_bytes,
                                                 .begin = exchange_begin,
                                                 .admit = admit,
                                                 .dispatch = dispatch,
                                                 .refuse = refuse,
                                                 .over = exchange_over,
                                                 .closed = connection_closed,
                                                 .hold = body_hold};
    made->config.listen.context = made;
    made->config.listen.arrived = on_arrived;
    if (config->max_requests_per_client > 0)
        made->clients =
            client_table_create(config->max_connections, config->max_requests_per_client);
    enum result result = http_listener_create(base, &made->config.listen, &made->listener, error);
    if (result != RESULT_OK) {
        http_server_destroy(made);
        return result;
    }
    made->config.origins.cors = &made->config.connection.cors;
    made->config.origins.enforced = !config->keys && http_listener_is_loopback(made->listener);
    *server = made;
    return RESULT_OK;
}

void http_server_destroy(struct http_server *server)
{
    if (!server)
        return;
    http_listener_destroy(server->listener);
    while (server->first)
        http_connection_destroy(server->first);
    client_table_destroy(server->clients);
    free(server);
}

void http_server_pause(struct http_server *server)
{
    server->stopping = true;
    http_listener_pause(server->listener);
}

void http_server_accept(struct http_server *server)
{
    server->stopping = false;
    http_listener_resume(server->listener);
}

size_t http_server_sockets(const struct http_server *server, int *fds)
{
    size_t count = http_listener_count(server->listener);
    for (size_t i = 0; i < count; i++)
        fds[i] = http_listener_fd(server->listener, i);
    return count;
}

void http_server_stop_accepting(struct http_server *server)
{
    server->stopping = true;
    http_listener_stop(server->listener);
}

uint16_t http_server_port(const struct http_server *server)
{
    return http_listener_port(server->listener);
}

uint64_t http_server_unsent_bytes(const struct http_server *server)
{
    return server->unsent_bytes;
}

const struct http_counters *http_server_counters(const struct http_server *server)
{
    return &server->counters;
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
