#include "tests/support/connection_rig.h"

#include <event2/event.h>
#include <event2/util.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "frontend/http/http_reply.h"
#include "proto/must.h"

#define PATIENCE_MS 60000

static void begin(void *context, struct http_exchange *exchange)
{
    (void)exchange;
    struct connection_rig *rig = context;
    rig->begun_count++;
}

static void refuse(void *context, struct http_exchange *exchange, int status, const char *problem)
{
    struct connection_rig *rig = context;
    struct api_error error;
    rig->refused_status = status;
    (void)api_error_set(&error, RESULT_INVALID, status, NULL, "%s", problem);
    http_reply_error(exchange, &error);
}

static bool admit(void *context, struct http_exchange *exchange)
{
    struct connection_rig *rig = context;
    rig->admitted_count++;
    if (rig->rejects)
        http_reply_whole(exchange, 403, NULL, "", 0);
    return !rig->rejects;
}

static void on_gone(void *context)
{
    struct connection_rig *rig = context;
    rig->gone_count++;
    rig->exchange = NULL;
}

static void dispatch(void *context, struct http_exchange *exchange)
{
    struct connection_rig *rig = context;
    rig->dispatched_count++;
    rig->exchange = exchange;
    http_exchange_on_gone(exchange, on_gone, rig);
}

static void over(void *context, struct http_exchange *exchange)
{
    struct connection_rig *rig = context;
    rig->over_count++;
    rig->complete = exchange->complete;
    rig->exchange = NULL;
}

static void closed(void *context, struct http_connection *connection)
{
    struct connection_rig *rig = context;
    must(connection == rig->connection);
    rig->connection = NULL;
}

static bool hold(void *context, int64_t bytes)
{
    struct connection_rig *rig = context;
    must(bytes != 0);
    rig->held_bytes += bytes;
    if (rig->held_bytes > rig->peak_held_bytes)
        rig->peak_held_bytes = rig->held_bytes;
    return rig->held_bytes <= rig->max_held_bytes;
}

void connection_rig_init(struct connection_rig *rig)
{
    *rig = (struct connection_rig){.client = -1,
                                   .max_held_bytes = 1 << 20,
                                   .config = {.max_head_bytes = 1024,
                                              .max_body_bytes = 10000,
                                              .handshake_timeout_ms = PATIENCE_MS,
                                              .request_timeout_ms = PATIENCE_MS,
                                              .idle_timeout_ms = PATIENCE_MS,
                                              .write_timeout_ms = PATIENCE_MS,
                                              .max_unsent_bytes = 1 << 20}};
    rig->owner = (struct http_connection_owner){.server = rig,
                                                .counters = &rig->counters,
                                                .unsent_bytes = &rig->unsent_bytes,
                                                .begin = begin,
                                                .admit = admit,
                                                .dispatch = dispatch,
                                                .refuse = refuse,
                                                .over = over,
                                                .closed = closed,
                                                .hold = hold};
    rig->base = event_base_new();
    must(rig->base != NULL);
}

int connection_rig_pair(struct connection_rig *rig)
{
    int fds[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    must(evutil_make_socket_nonblocking(fds[0]) == 0);
    must(evutil_make_socket_nonblocking(fds[1]) == 0);
    rig->client = fds[1];
    return fds[0];
}

void connection_rig_open(struct connection_rig *rig, int fd, struct ssl_st *ssl)
{
    struct http_client_socket socket = {.fd = fd, .ssl = ssl};
    rig->connection = http_connection_create(rig->base, &socket, &rig->config, &rig->owner);
    must(rig->connection != NULL);
}

void connection_rig_fini(struct connection_rig *rig)
{
    if (rig->connection)
        http_connection_destroy(rig->connection);
    if (rig->client >= 0)
        close(rig->client);
    text_buffer_fini(&rig->output);
    event_base_free(rig->base);
}

void connection_rig_turn(struct connection_rig *rig)
{
    for (int i = 0; i < 8; i++)
        event_base_loop(rig->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

void connection_rig_send(struct connection_rig *rig, const char *text)
{
    must(send(rig->client, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
    connection_rig_turn(rig);
}

void connection_rig_request(struct connection_rig *rig, const char *text)
{
    connection_rig_send(rig, text);
    must(rig->exchange != NULL);
}

const char *connection_rig_receive(struct connection_rig *rig)
{
    static char bytes[65536];
    text_buffer_clear(&rig->output);
    for (int quiet = 0; quiet < 3 && !rig->at_end;) {
        ssize_t count = recv(rig->client, bytes, sizeof bytes, 0);
        rig->at_end = count == 0;
        if (count > 0)
            text_buffer_append(&rig->output, bytes, (size_t)count);
        quiet = count > 0 ? 0 : quiet + 1;
        connection_rig_turn(rig);
    }
    text_buffer_append(&rig->output, "", 1);
    text_buffer_cut(&rig->output, rig->output.length - 1);
    return rig->output.bytes;
}
