/*
 * systemd's side of this process, when there is one: sockets that it passes (socket activation),
 * and messages to it (ready, status, stopping, alive). Spoken by hand, as sd_listen_fds(3) and
 * sd_notify(3) document it; without a service manager everything here does nothing.
 */
#ifndef SHOAL_FRONTEND_SERVE_SERVICE_MANAGER_H
#define SHOAL_FRONTEND_SERVE_SERVICE_MANAGER_H

#include <stddef.h>

#include "proto/limits.h"

struct event_base;
struct service_manager;

#define SERVICE_STATUS_BYTES 128u

struct service_manager_config {
    struct event_base *base;
    void *context;
    /* Once a second while somebody listens: one line about how things are. */
    void (*write_status)(void *context, char status[SERVICE_STATUS_BYTES]);
};

/* Reads and removes the environment variables of the protocol, so that no child inherits them.
 * Before the first thread starts. */
struct service_manager *service_manager_create(const struct service_manager_config *config);
void service_manager_destroy(struct service_manager *manager);

/* The listening sockets that were passed to this process; the caller takes them over. */
size_t service_manager_take_sockets(struct service_manager *manager,
                                    int fds[LIMIT_LISTEN_SOCKETS + 1]);

/* READY=1; the first call counts. Until then each change of the status asks for more time. */
void service_manager_ready(struct service_manager *manager);
/* RELOADING=1 before, READY=1 behind. */
void service_manager_reloading(struct service_manager *manager);
void service_manager_reloaded(struct service_manager *manager);
void service_manager_stopping(struct service_manager *manager);

#endif
