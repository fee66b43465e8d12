/*
 * One http_connection over a socket pair, with its loop and the client's end, in one thread. The
 * server's callbacks are replaced by ones that record; the test replies to `exchange` itself.
 */
#ifndef SHOAL_TESTS_SUPPORT_CONNECTION_RIG_H
#define SHOAL_TESTS_SUPPORT_CONNECTION_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/base/text_buffer.h"
#include "frontend/http/http_connection.h"

struct ssl_st;

struct connection_rig {
    struct event_base *base;
    struct http_connection_config config;
    struct http_connection_owner owner;
    struct http_counters counters;
    uint64_t unsent_bytes;
    struct http_connection *connection; /* NULL once it is closed */
    struct http_exchange *exchange;     /* dispatched, and neither over nor gone; otherwise NULL */
    bool rejects;                       /* admit() replies 403 */
    int64_t max_held_bytes;             /* of bodies; hold() is false beyond it */
    int64_t held_bytes;
    int64_t peak_held_bytes;
    int begun_count, admitted_count, dispatched_count, over_count, gone_count;
    bool complete;             /* of the last exchange that was over */
    int refused_status;        /* of the last refuse() */
    int client;                /* descriptor */
    struct text_buffer output; /* bytes that the client received; NUL-terminated */
    bool at_end;               /* the client read the end of the stream */
};

/* Zeroes all, and sets time-outs of a minute, heads of 1024 and bodies of 10,000 bytes. */
void connection_rig_init(struct connection_rig *rig);
/* Makes the socket pair; returns the server's end, for connection_rig_open(). */
int connection_rig_pair(struct connection_rig *rig);
/* Opens the connection over `fd`; `ssl` (or NULL) is the server's side of TLS over it. */
void connection_rig_open(struct connection_rig *rig, int fd, struct ssl_st *ssl);
void connection_rig_fini(struct connection_rig *rig);

/* Turns the loop until no event is ready. */
void connection_rig_turn(struct connection_rig *rig);
/* Sends bytes and turns the loop. */
void connection_rig_send(struct connection_rig *rig, const char *text);
/* Sends a request and expects it to be dispatched. */
void connection_rig_request(struct connection_rig *rig, const char *text);
/* Receives all that is there, turning the loop, into `output`. */
const char *connection_rig_receive(struct connection_rig *rig);

#endif
