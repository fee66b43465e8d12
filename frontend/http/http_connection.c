/*
 * The life of one client's socket.
 *
 * Reading never stops. In READING, bytes go to the parser. While a request is handled or its reply
 * is written, bytes of a next request (pipelining) are kept up to a limit, and end of file or a
 * reset is noticed in the same loop turn, also while the request waits in a queue. A client that
 * shuts down only its writing side counts as gone: no client of a chat API does that, and the two
 * cases cannot be told apart before the next write fails.
 *
 * Writing goes straight to the socket; only bytes that the kernel does not take are kept and
 * written when there is room. A stream thus costs one system call per wake-up, and the kept bytes
 * measure how slow its reader is. TLS is below this file (http_transport.h) and changes none of it.
 *
 * A request has one timer, started by its first byte; later bytes do not restart it.
 *
 * A connection is closed and freed only from its own event callbacks. Other code that finds it
 * broken marks it and activates its event, so a handler's call never frees the exchange in use.
 */
#include "frontend/http/http_connection.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/http/http_transport.h"
#include "proto/must.h"

#define READ_BYTES 65536u
#define LINGER_MS  2000 /* so that a reset does not destroy an early reply */

enum connection_state { HANDSHAKE, READING, HANDLING, FLUSHING, LINGERING };

struct http_connection {
    struct http_connection_links links;
    const struct http_connection_config *config;
    const struct http_connection_owner *owner;
    struct http_transport transport;
    struct client_address client;
    enum connection_state state;
    struct event *read_event;
    struct event *write_event;
    struct event *timer;
    struct evbuffer *unsent;
    struct http_parser parser;
    struct http_exchange exchange;
    char *pending; /* bytes after the current request */
    size_t pending_bytes;
    int64_t held_bytes;    /* of the body, as reported to the server */
    size_t counted_unsent; /* bytes in `unsent`; part of the server's sum */
    int64_t arrived_us;    /* the request's first byte */
    bool request_clock;    /* the timer is the request's, not the idle timer */
    bool exchange_open;    /* started and not over */
    bool keep_alive;
    bool broken;
};

static void on_readable(int fd, short what, void *context);
static void on_writable(int fd, short what, void *context);
static void on_timer(int fd, short what, void *context);

struct http_connection_links *http_connection_links(struct http_connection *connection)
{
    return &connection->links;
}

static void timer_set(struct http_connection *connection, int timeout_ms)
{
    struct timeval after = {.tv_sec = timeout_ms / 1000,
                            .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};
    event_add(connection->timer, &after);
}

static void request_begin(struct http_connection *connection)
{
    connection->state = READING;
    connection->request_clock = false;
    http_parser_begin(&connection->parser, connection->config->max_head_bytes,
                      connection->config->max_body_bytes);
    timer_set(connection, connection->config->idle_timeout_ms);
}

struct http_connection *http_connection_create(struct event_base *base,
                                               const struct http_client_socket *socket,
                                               const struct http_connection_config *config,
                                               const struct http_connection_owner *owner)
{
    struct http_connection *connection = calloc(1, sizeof *connection);
    struct http_transport transport;
    http_transport_init(&transport, socket->fd, socket->ssl);
    if (!connection) {
        http_transport_fini(&transport);
        return NULL;
    }
    connection->transport = transport;
    connection->client = socket->client;
    connection->config = config;
    connection->owner = owner;
    connection->read_event =
        event_new(base, socket->fd, EV_READ | EV_PERSIST, on_readable, connection);
    connection->write_event = event_new(base, socket->fd, EV_WRITE, on_writable, connection);
    connection->timer = event_new(base, -1, 0, on_timer, connection);
    connection->unsent = evbuffer_new();
    must(connection->read_event && connection->write_event && connection->timer &&
         connection->unsent);
    event_add(connection->read_event, NULL);
    request_begin(connection);
    if (transport.handshaking) {
        connection->state = HANDSHAKE;
        timer_set(connection, config->handshake_timeout_ms);
    }
    return connection;
}

static void exchange_end(struct http_connection *connection)
{
    if (!connection->exchange_open)
        return;
    connection->exchange_open = false;
    connection->owner->over(connection->owner->server, &connection->exchange);
    http_exchange_fini(&connection->exchange);
}

static void body_release(struct http_connection *connection)
{
    if (connection->held_bytes > 0)
        (void)connection->owner->hold(connection->owner->server, -connection->held_bytes);
    connection->held_bytes = 0;
}

/* They may hold an API key. */
static void pending_drop(char *bytes, size_t count)
{
    if (bytes)
        explicit_bzero(bytes, count);
    free(bytes);
}

void http_connection_destroy(struct http_connection *connection)
{
    if (connection->state == HANDLING && connection->exchange.gone)
        connection->exchange.gone(connection->exchange.gone_context);
    exchange_end(connection);
    body_release(connection);
    *connection->owner->unsent_bytes -= connection->counted_unsent;
    connection->owner->closed(connection->owner->server, connection);
    event_free(connection->read_event);
    event_free(connection->write_event);
    event_free(connection->timer);
    evbuffer_free(connection->unsent);
    http_parser_fini(&connection->parser);
    pending_drop(connection->pending, connection->pending_bytes);
    http_transport_fini(&connection->transport);
    free(connection);
}

bool http_connection_is_idle(const struct http_connection *connection)
{
    return connection->state == HANDSHAKE ||
           (connection->state == READING && !http_parser_started(&connection->parser));
}

bool http_connection_keeps_alive(const struct http_connection *connection)
{
    return connection->keep_alive;
}

void http_connection_close_after_reply(struct http_connection *connection)
{
    connection->keep_alive = false;
}

size_t http_connection_unsent_bytes(const struct http_connection *connection)
{
    return connection->counted_unsent;
}

bool http_connection_is_crowding(const struct http_connection *connection)
{
    return http_connection_unsent_bytes(connection) > 0 &&
           *connection->owner->unsent_bytes > connection->config->max_unsent_bytes;
}

/* Updates the server's sum; call after every change of `unsent`. */
static void unsent_account(struct http_connection *connection)
{
    size_t now = evbuffer_get_length(connection->unsent);
    *connection->owner->unsent_bytes += now;
    *connection->owner->unsent_bytes -= connection->counted_unsent;
    connection->counted_unsent = now;
}

const struct cors_policy *http_connection_cors(const struct http_connection *connection)
{
    return &connection->config->cors;
}

/* Runs the connection's callback in the next loop turn, without an event of the socket. */
static void wake(struct http_connection *connection)
{
    event_active(connection->read_event, EV_READ, 0);
}

void http_connection_break(struct http_connection *connection)
{
    connection->broken = true;
    wake(connection);
}

/* --- writing --------------------------------------------------------------------------------- */

void http_connection_write(struct http_connection *connection, const struct iovec parts[],
                           int part_count)
{
    if (connection->broken)
        return;
    ssize_t taken = 0;
    size_t total = 0;
    for (int i = 0; i < part_count; i++)
        total += parts[i].iov_len;
    if (connection->counted_unsent == 0)
        taken = http_transport_write(&connection->transport, parts, part_count);
    if (taken >= 0 && (size_t)taken == total)
        return;
    bool good = taken >= 0;
    size_t sent = good ? (size_t)taken : 0;
    for (int i = 0; i < part_count && good; i++) {
        size_t skip = sent < parts[i].iov_len ? sent : parts[i].iov_len;
        sent -= skip;
        good = skip == parts[i].iov_len ||
               evbuffer_add(connection->unsent, (const char *)parts[i].iov_base + skip,
                            parts[i].iov_len - skip) == 0;
    }
    if (good && connection->transport.ssl)
        good = http_transport_flush(&connection->transport, connection->unsent) == RESULT_OK;
    unsent_account(connection);
    if (!good)
        http_connection_break(connection);
    else if (http_connection_unsent_bytes(connection) > 0)
        event_add(connection->write_event, NULL);
}

/* Sends the end of the stream; if the socket has no room for it, later. */
static void shut_down(struct http_connection *connection)
{
    if (http_transport_shutdown(&connection->transport) != RESULT_OK)
        event_add(connection->write_event, NULL);
}

/* All of the reply is written: the next request, or the end. */
static void flush_finish(struct http_connection *connection)
{
    connection->exchange.complete = true;
    exchange_end(connection);
    if (connection->keep_alive) {
        request_begin(connection);
        if (connection->pending_bytes > 0)
            wake(connection);
        return;
    }
    connection->state = LINGERING;
    shut_down(connection);
    timer_set(connection, LINGER_MS);
}

void http_connection_reply_done(struct http_connection *connection)
{
    must(connection->state == HANDLING);
    connection->state = FLUSHING;
    if (http_connection_unsent_bytes(connection) == 0 && !connection->broken)
        flush_finish(connection);
    else
        timer_set(connection, connection->config->write_timeout_ms);
}

static void on_writable(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct http_connection *connection = context;
    if (connection->transport.read_needs_writable)
        wake(connection);
    if (connection->state == HANDSHAKE)
        return;
    size_t unsent = http_connection_unsent_bytes(connection);
    if (http_transport_flush(&connection->transport, connection->unsent) != RESULT_OK) {
        http_connection_destroy(connection);
        return;
    }
    unsent_account(connection);
    if (http_connection_unsent_bytes(connection) > 0) {
        event_add(connection->write_event, NULL);
        if (connection->state == FLUSHING && http_connection_unsent_bytes(connection) < unsent)
            timer_set(connection, connection->config->write_timeout_ms);
    } else if (connection->state == FLUSHING)
        flush_finish(connection);
    else if (connection->state == LINGERING)
        shut_down(connection);
}

/* --- reading --------------------------------------------------------------------------------- */

static void exchange_begin(struct http_connection *connection)
{
    must(!connection->exchange_open);
    http_exchange_init(&connection->exchange, connection, &connection->client, &connection->parser,
                       connection->arrived_us);
    connection->exchange_open = true;
    connection->owner->counters->requests++;
    connection->owner->begin(connection->owner->server, &connection->exchange);
}

/* Answers bytes that are not a request, or a request that breaks a limit; the connection is closed
 * after the reply. */
static void refuse(struct http_connection *connection, int status, const char *problem)
{
    event_del(connection->timer);
    connection->keep_alive = false;
    pending_drop(connection->pending, connection->pending_bytes);
    connection->pending = NULL;
    connection->pending_bytes = 0;
    if (!connection->exchange_open)
        exchange_begin(connection);
    connection->state = HANDLING;
    struct http_counters *counters = connection->owner->counters;
    if (status == 408)
        counters->requests_too_slow++;
    else
        counters->requests_malformed++;
    connection->owner->refuse(connection->owner->server, &connection->exchange, status, problem);
}

static void continue_send(struct http_connection *connection)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct iovec part = {.iov_base = (void *)(uintptr_t)line, .iov_len = sizeof line - 1};
    http_connection_write(connection, &part, 1);
}

/* Reports the growth of the body to the server. False: the server holds too many bytes. */
static bool body_account(struct http_connection *connection)
{
    int64_t grown = (int64_t)connection->parser.body_capacity - connection->held_bytes;
    if (grown <= 0)
        return true;
    connection->held_bytes += grown;
    return connection->owner->hold(connection->owner->server, grown);
}

static void request_finish(struct http_connection *connection)
{
    event_del(connection->timer);
    connection->state = HANDLING;
    connection->owner->dispatch(connection->owner->server, &connection->exchange);
    body_release(connection);
}

/* Called when the head is complete, with the body (if any) still to come. After a refusal the
 * connection is kept only if there is no body, which would have to be read to find the next
 * request. */
static void head_finish(struct http_connection *connection)
{
    const struct http_parser *parser = &connection->parser;
    exchange_begin(connection);
    connection->state = HANDLING;
    connection->keep_alive = parser->keep_alive && parser->state == HTTP_PARSER_DONE;
    if (!connection->owner->admit(connection->owner->server, &connection->exchange))
        return;
    connection->keep_alive = parser->keep_alive;
    connection->state = READING;
    if (parser->state == HTTP_PARSER_DONE)
        request_finish(connection);
    else if (parser->expects_continue)
        continue_send(connection);
}

/* Feeds the parser; returns the bytes it took. */
static size_t request_feed(struct http_connection *connection, const char *bytes, size_t count)
{
    struct http_parser *parser = &connection->parser;
    bool in_head = parser->state == HTTP_PARSER_HEAD;
    if (!connection->request_clock)
        connection->arrived_us = monotonic_clock_us();
    size_t taken = http_parser_feed(parser, bytes, count);
    if (http_parser_started(parser) && !connection->request_clock) {
        connection->request_clock = true;
        timer_set(connection, connection->config->request_timeout_ms);
    }
    if (!body_account(connection))
        refuse(connection, 503, "the server is receiving too many large requests");
    else if (parser->state == HTTP_PARSER_BAD)
        refuse(connection, parser->status, parser->problem);
    else if (in_head && parser->state != HTTP_PARSER_HEAD)
        head_finish(connection);
    else if (parser->state == HTTP_PARSER_DONE)
        request_finish(connection);
    return taken;
}

/* Keeps bytes that belong to a later request. False: there are too many. */
static bool pending_keep(struct http_connection *connection, const char *bytes, size_t count)
{
    if (connection->state == LINGERING || count == 0)
        return true;
    if (connection->state == FLUSHING && !connection->keep_alive)
        return true;
    if (connection->pending_bytes + count > LIMIT_HTTP_PENDING_BYTES)
        return false;
    size_t before = connection->pending_bytes;
    char *grown = malloc(before + count);
    if (!grown)
        return false;
    if (before > 0)
        memcpy(grown, connection->pending, before);
    memcpy(grown + before, bytes, count);
    pending_drop(connection->pending, before);
    connection->pending = grown;
    connection->pending_bytes = before + count;
    return true;
}

/* Feeds the parser one request and keeps the rest. False: close. */
static bool bytes_take(struct http_connection *connection, const char *bytes, size_t count)
{
    size_t taken = 0;
    while (taken < count && connection->state == READING && !connection->broken)
        taken += request_feed(connection, bytes + taken, count - taken);
    return pending_keep(connection, bytes + taken, count - taken);
}

static bool pending_take(struct http_connection *connection)
{
    if (connection->state != READING || connection->pending_bytes == 0)
        return true;
    char *bytes = connection->pending;
    size_t count = connection->pending_bytes;
    connection->pending = NULL;
    connection->pending_bytes = 0;
    bool good = bytes_take(connection, bytes, count);
    pending_drop(bytes, count);
    return good;
}

/* False: it failed. */
static bool handshake_continue(struct http_connection *connection)
{
    enum result result = http_transport_handshake(&connection->transport);
    if (result == RESULT_OK) {
        connection->state = READING;
        timer_set(connection, connection->config->idle_timeout_ms);
        return true;
    }
    if (connection->transport.read_needs_writable)
        event_add(connection->write_event, NULL);
    if (result != RESULT_EMPTY)
        connection->owner->counters->handshakes_failed++;
    return result == RESULT_EMPTY;
}

/* Reads once. False: the client is gone or sent too many bytes. */
static bool socket_read(struct http_connection *connection)
{
    char bytes[READ_BYTES];
    ssize_t count = http_transport_read(&connection->transport, bytes, sizeof bytes);
    if (connection->transport.read_needs_writable)
        event_add(connection->write_event, NULL);
    if (count <= 0)
        return count < 0;
    bool good = bytes_take(connection, bytes, (size_t)count);
    explicit_bzero(bytes, (size_t)count);
    if (good && http_transport_has_more(&connection->transport))
        wake(connection);
    return good;
}

static void on_readable(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct http_connection *connection = context;
    bool good = !connection->broken;
    if (good && connection->state == HANDSHAKE)
        good = handshake_continue(connection);
    if (good && connection->state != HANDSHAKE)
        good = pending_take(connection) && socket_read(connection);
    if (good && connection->transport.write_needs_readable)
        event_active(connection->write_event, EV_WRITE, 0);
    if (!good)
        http_connection_destroy(connection);
}

static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct http_connection *connection = context;
    connection->owner->counters->handshakes_failed += connection->state == HANDSHAKE;
    if (connection->state == READING && connection->request_clock)
        refuse(connection, 408, "the request took too long to arrive");
    else
        http_connection_destroy(connection);
}
