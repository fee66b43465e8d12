/*
 * The sockets on which clients arrive: one that is bound here, or some that a service manager
 * passed to this process.
 */
#ifndef SHOAL_FRONTEND_HTTP_HTTP_LISTENER_H
#define SHOAL_FRONTEND_HTTP_HTTP_LISTENER_H

#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

struct event_base;
struct http_listener;
struct sockaddr;

struct http_listener_config {
    const char *host; /* numeric or a name */
    uint16_t port;    /* 0: any free one */
    const int *fds;   /* with fd_count > 0 these are listened on, not host and port; owned from the
                         call on */
    size_t fd_count;
    void *context;
    /* A client; `fd` is non-blocking and the callee's. */
    void (*arrived)(void *context, int fd, const struct sockaddr *address);
};

/* Listens. RESULT_IO or RESULT_INVALID with words when there is nothing to listen on. */
enum result http_listener_create(struct event_base *base, const struct http_listener_config *config,
                                 struct http_listener **listener,
                                 struct error_text *error) RESULT_CHECKED;
void http_listener_destroy(struct http_listener *listener);

/* Of the first socket; 0 for a Unix socket. */
uint16_t http_listener_port(const struct http_listener *listener);

#endif
