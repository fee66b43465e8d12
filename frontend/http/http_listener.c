/*
 * Accepting connections.
 *
 * Sockets passed to this process are taken only if they are stream sockets that listen. Other
 * processes may hold them too (connections queue there while this program restarts), so they are
 * closed but never shut down.
 *
 * libevent accepts until no connection waits, which may never happen under a flood of connections:
 * after ACCEPT_BURST in a row the loop handles other events. When descriptors run out, accepting
 * pauses for a moment, because the loop would report the same error again at once.
 */
#include "frontend/http/http_listener.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/limits.h"
#include "proto/log.h"
#include "proto/must.h"

#define LISTEN_BACKLOG  4096
#define ACCEPT_PAUSE_MS 100
#define ACCEPT_BURST    64 /* connections accepted in a row before other events */

struct http_listener {
    struct http_listener_config config;
    struct event_base *base;
    struct evconnlistener *sockets[LIMIT_LISTEN_SOCKETS];
    size_t count;
    struct event *resume;
    uint64_t accepted;
};

static void pause_accepting(struct http_listener *listener)
{
    for (size_t i = 0; i < listener->count; i++)
        evconnlistener_disable(listener->sockets[i]);
}

static void on_accept(struct evconnlistener *socket, evutil_socket_t fd, struct sockaddr *address,
                      int address_bytes, void *context)
{
    (void)socket;
    (void)address_bytes;
    struct http_listener *listener = context;
    listener->config.arrived(listener->config.context, fd, address);
    if (++listener->accepted % ACCEPT_BURST == 0) {
        pause_accepting(listener);
        event_active(listener->resume, EV_TIMEOUT, 0);
    }
}

static void on_accept_error(struct evconnlistener *socket, void *context)
{
    (void)socket;
    struct http_listener *listener = context;
    struct timeval pause = {.tv_usec = ACCEPT_PAUSE_MS * 1000};
    log_warn("accepting connections pauses: %s", strerror(errno));
    pause_accepting(listener);
    event_add(listener->resume, &pause);
}

static void on_resume(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct http_listener *listener = context;
    for (size_t i = 0; i < listener->count; i++)
        evconnlistener_enable(listener->sockets[i]);
}

static void socket_add(struct http_listener *listener, struct evconnlistener *socket)
{
    evconnlistener_set_error_cb(socket, on_accept_error);
    listener->sockets[listener->count++] = socket;
}

static enum result bind_address(struct http_listener *listener, struct error_text *error)
{
    const struct http_listener_config *config = &listener->config;
    char port[8];
    snprintf(port, sizeof port, "%u", config->port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *addresses = NULL;
    int status = getaddrinfo(config->host, port, &hints, &addresses);
    if (status != 0)
        return error_set(error, RESULT_IO, "cannot listen on %s: %s", config->host,
                         gai_strerror(status));
    for (struct addrinfo *at = addresses; at && listener->count == 0; at = at->ai_next) {
        struct evconnlistener *socket = evconnlistener_new_bind(
            listener->base, on_accept, listener,
            LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE, LISTEN_BACKLOG,
            at->ai_addr, (int)at->ai_addrlen);
        if (socket)
            socket_add(listener, socket);
    }
    int saved = errno;
    freeaddrinfo(addresses);
    if (listener->count == 0)
        return error_set(error, RESULT_IO, "cannot listen on %s port %u: %s", config->host,
                         config->port, strerror(saved));
    return RESULT_OK;
}

static int socket_option(int fd, int name)
{
    int value = -1;
    socklen_t bytes = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &bytes) == 0 ? value : -1;
}

/* Takes over all descriptors, even if one of them is refused. */
static enum result adopt_sockets(struct http_listener *listener, struct error_text *error)
{
    enum result result = RESULT_OK;
    for (size_t i = 0; i < listener->config.fd_count; i++) {
        int fd = listener->config.fds[i];
        if (result == RESULT_OK &&
            (i >= LIMIT_LISTEN_SOCKETS || socket_option(fd, SO_TYPE) != SOCK_STREAM ||
             socket_option(fd, SO_ACCEPTCONN) != 1))
            result = error_set(error, RESULT_INVALID,
                               i >= LIMIT_LISTEN_SOCKETS
                                   ? "more sockets were passed than are taken (descriptor %d)"
                                   : "the descriptor %d that was passed is no listening socket",
                               fd);
        if (result != RESULT_OK) {
            close(fd);
            continue;
        }
        must(evutil_make_socket_nonblocking(fd) == 0 && evutil_make_socket_closeonexec(fd) == 0);
        struct evconnlistener *socket =
            evconnlistener_new(listener->base, on_accept, listener,
                               LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
        must(socket != NULL);
        socket_add(listener, socket);
    }
    return result;
}

enum result http_listener_create(struct event_base *base, const struct http_listener_config *config,
                                 struct http_listener **listener, struct error_text *error)
{
    struct http_listener *made = must_alloc(1, sizeof *made);
    made->config = *config;
    made->base = base;
    made->resume = event_new(base, -1, 0, on_resume, made);
    must(made->resume != NULL);
    enum result result =
        config->fd_count > 0 ? adopt_sockets(made, error) : bind_address(made, error);
    if (result != RESULT_OK) {
        http_listener_destroy(made);
        return result;
    }
    if (config->paused)
        pause_accepting(made);
    *listener = made;
    return RESULT_OK;
}

void http_listener_stop(struct http_listener *listener)
{
    event_del(listener->resume);
    for (size_t i = 0; i < listener->count; i++)
        evconnlistener_free(listener->sockets[i]);
    listener->count = 0;
}

void http_listener_destroy(struct http_listener *listener)
{
    if (!listener)
        return;
    http_listener_stop(listener);
    event_free(listener->resume);
    free(listener);
}

void http_listener_pause(struct http_listener *listener)
{
    event_del(listener->resume);
    pause_accepting(listener);
}

void http_listener_resume(struct http_listener *listener)
{
    on_resume(-1, 0, listener);
}

size_t http_listener_count(const struct http_listener *listener)
{
    return listener->count;
}

int http_listener_fd(const struct http_listener *listener, size_t index)
{
    return evconnlistener_get_fd(listener->sockets[index]);
}

static struct sockaddr_storage bound_address(const struct http_listener *listener, size_t index)
{
    struct sockaddr_storage bound = {0};
    socklen_t bytes = sizeof bound;
    must(getsockname(evconnlistener_get_fd(listener->sockets[index]), (struct sockaddr *)&bound,
                     &bytes) == 0);
    return bound;
}

uint16_t http_listener_port(const struct http_listener *listener)
{
    struct sockaddr_storage bound = bound_address(listener, 0);
    if (bound.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)(void *)&bound)->sin6_port);
    return bound.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)(void *)&bound)->sin_port) : 0;
}

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 ==
               127;
    if (address->ss_family != AF_INET6)
        return false;
    const struct in6_addr *ip = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(ip) || (IN6_IS_ADDR_V4MAPPED(ip) && ip->s6_addr[12] == 127);
}

bool http_listener_is_loopback(const struct http_listener *listener)
{
    for (size_t i = 0; i < listener->count; i++) {
        struct sockaddr_storage bound = bound_address(listener, i);
        if (!is_loopback(&bound))
            return false;
    }
    return true;
}
