/*
 * The protocol of systemd: passed sockets (socket activation) and status messages (ready, status,
 * stopping, watchdog), as in sd_listen_fds(3) and sd_notify(3). Without a service manager nothing
 * here has an effect. A server that starts its successor (server_handover.h) is a manager in this sense.
 */
#ifndef SHOAL_FRONTEND_SERVE_SERVICE_MANAGER_H
#define SHOAL_FRONTEND_SERVE_SERVICE_MANAGER_H

#include <stddef.h>
#include <sys/types.h>

#include "proto/limits.h"

struct event_base;
struct service_manager;

#define SERVICE_STATUS_BYTES 128u

struct service_manager_config {
    struct event_base *base;
    void *context;
    /* Called once a second if there is a service manager: writes one line of status. */
    void (*write_status)(void *context, char status[SERVICE_STATUS_BYTES]);
};

/* Reads and removes the protocol's environment variables, so that no child inherits them. Call
 * before the first thread starts. */
struct service_manager *service_manager_create(const struct service_manager_config *config);
void service_manager_destroy(struct service_manager *manager);

/* Gives the passed listening sockets to the caller. */
size_t service_manager_take_sockets(struct service_manager *manager,
                                    int fds[LIMIT_LISTEN_SOCKETS + 1]);

/* The channel to the server that this one succeeds, owned by the caller from now on; -1: none. */
int service_manager_take_channel(struct service_manager *manager);

/* The environment for a successor that gets the channel as descriptor 3 and `sockets` listening sockets from
 * 4 on: this one's, and the addresses of the service manager. malloc'd as one block, NULL-terminated;
 * it points into the manager and into the environment. */
char **service_manager_successor_environment(struct service_manager *manager, size_t sockets);
/* MAINPID: the service is from now on this process. */
void service_manager_succeeded(struct service_manager *manager, pid_t pid);

/* READY=1, on the first call. Before it, each change of the status extends the start time-out. */
void service_manager_ready(struct service_manager *manager);
/* RELOADING=1 before, READY=1 after. */
void service_manager_reloading(struct service_manager *manager);
void service_manager_reloaded(struct service_manager *manager);
void service_manager_stopping(struct service_manager *manager);

#endif
