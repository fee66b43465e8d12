/*
 * Replaces the server's program without closing its port: the server starts the program file again, as
 * its successor, with the same command line and the listening sockets.
 *
 *   server                                successor
 *     |-- starts it ------------------------> loads the model; accepts nothing
 *     |   serves as before                    |
 *     |<------------------- "ready" ----------| accepts connections
 *     | closes its sockets; each connection
 *     | ends with its next reply; drains; exits
 *
 * A successor that ends before it is ready changes nothing. Connections wait in the queue of the
 * sockets, which both processes have, so none is refused at any moment.
 *
 * With --state-dir one process owns the directory at a time (response_journal.h):
 *
 *     |<------------------ "asks" -----------| the model is loaded
 *     | writes what it has, unlocks the dir  |
 *     |--------------- "left" -------------->| locks it, loads the stored responses
 *     |   its requests' responses wait       |
 *     |<------------------ "ready" ----------| accepts connections
 *     |------ responses, deletions --------->| which it stores, until the stream ends: what the server
 *     | drains; exits                        | before left unfinished is then made here
 */
#ifndef SHOAL_FRONTEND_SERVE_SERVER_HANDOVER_H
#define SHOAL_FRONTEND_SERVE_SERVER_HANDOVER_H

#include <stddef.h>
#include <sys/types.h>

#include "proto/result.h"

struct event_base;
struct option_texts;
struct server_handover;

/* What a successor sends: */
#define SERVER_HANDOVER_ASK   'A'
#define SERVER_HANDOVER_READY 'R'

struct server_handover_config {
    struct event_base *base;
    /* The command line without program and command; copied. */
    char *const *arguments;
    int argument_count;
    const struct option_texts
        *keys; /* that it holds; the copy has their digests instead (api_keys.h) */
    void *context;
    void (*ready)(void *context, pid_t successor); /* it accepts connections */
    /* It asks for the state directory. `channel` is a descriptor for the callee. */
    void (*asked)(void *context, int channel);
    void (*failed)(void *context); /* it ended before it was ready */
};

struct server_handover *server_handover_create(const struct server_handover_config *config);
void server_handover_destroy(struct server_handover *handover); /* NULL is allowed */

/* Starts a successor with these sockets and environment. If it ends before it is ready, the log says so, and
 * another one can be started. RESULT_FULL: one is starting; RESULT_IO. */
enum result server_handover_start(struct server_handover *handover, const int *sockets,
                                  size_t socket_count, char *const *environment,
                                  struct error_text *error) RESULT_CHECKED;

/* In the successor: reports that it accepts connections, and closes the channel. */
void server_handover_report(int channel);

#endif
