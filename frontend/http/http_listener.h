/*
 * The listening sockets: one that is bound here, or sockets passed by a service manager.
 */
#ifndef SHOAL_FRONTEND_HTTP_HTTP_LISTENER_H
#define SHOAL_FRONTEND_HTTP_HTTP_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

struct event_base;
struct http_listener;
struct sockaddr;

struct http_listener_config {
    const char *host; /* numeric or a name */
    uint16_t port;    /* 0: any free one */
    const int
        *fds; /* if fd_count > 0, listened on instead of host and port; owned from the call on */
    size_t fd_count;
    bool paused; /* accepts nothing before http_listener_resume() */
    void *context;
    /* A new client; `fd` is non-blocking and owned by the callee. */
    void (*arrived)(void *context, int fd, const struct sockaddr *address);
};

/* Listens. RESULT_IO or RESULT_INVALID with a message if there is nothing to listen on. */
enum result http_listener_create(struct event_base *base, const struct http_listener_config *config,
                                 struct http_listener **listener,
                                 struct error_text *error) RESULT_CHECKED;
void http_listener_destroy(struct http_listener *listener);
/* Accepts nothing before http_listener_resume(); connections wait in the kernel's queue. */
void http_listener_pause(struct http_listener *listener);

/* Accepts connections, those too that already wait. */
void http_listener_resume(struct http_listener *listener);
/* Closes the sockets; connections that wait are lost unless another process has the same sockets. */
void http_listener_stop(struct http_listener *listener);
size_t http_listener_count(const struct http_listener *listener); /* of sockets */
int http_listener_fd(const struct http_listener *listener, size_t index);

/* True if every socket is bound to a loopback address. */
bool http_listener_is_loopback(const struct http_listener *listener);

/* Port of the first socket; 0 for a Unix socket. */
uint16_t http_listener_port(const struct http_listener *listener);

#endif
