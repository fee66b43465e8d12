/*
 * Which requests reach their handler: a refused one has one reply and is never handled. The sockets
 * of a server are those on which it listens.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "frontend/http/api_keys.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/http_server.h"
#include "proto/log.h"

enum { TIME_MS = 60000 };

static struct event_base *base;
static struct http_server *server;
static struct api_keys *keys;
static int handled;
static char reply[4096];

static void handle(void *context, struct http_exchange *exchange)
{
    (void)context;
    handled++;
    http_reply_whole(exchange, 200, "text/plain", "done", 4);
}

static const struct http_route routes[] = {
    {"/post", HTTP_POST, false, false, NULL, NULL, handle},
    {"/admin", HTTP_POST, false, true, NULL, NULL, handle},
};

static void start(bool with_keys)
{
    static const char *const hosts[] = {"h"}, *const given[] = {"sk-key"};
    const struct api_keys_config key_config = {.given = given, .given_count = 1};
    struct error_text error;
    log_init("test", LOG_ERROR);
    keys = NULL;
    if (with_keys)
        assert_int_equal(api_keys_create(&key_config, &keys, &error), RESULT_OK);
    base = event_base_new();
    const struct http_server_config config = {.listen = {.host = "127.0.0.1"},
                                              .max_connections = 4,
                                              .max_held_body_bytes = 1u << 20,
                                              .connection = {.max_head_bytes = 1024,
                                                             .max_body_bytes = 1000,
                                                             .request_timeout_ms = TIME_MS,
                                                             .idle_timeout_ms = TIME_MS,
                                                             .max_unsent_bytes = 1u << 20,
                                                             .write_timeout_ms = TIME_MS},
                                              .origins = {.hosts = hosts, .host_count = 1},
                                              .keys = keys,
                                              .routes = routes,
                                              .route_count = sizeof routes / sizeof routes[0]};
    if (http_server_create(base, &config, &server, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    handled = 0;
}

static void stop(void)
{
    http_server_destroy(server);
    event_base_free(base);
    api_keys_destroy(keys);
}

static int listening_socket(void)
{
    int sockets[4] = {-1, -1, -1, -1};
    assert_int_equal(http_server_sockets(server, sockets), 1);
    for (int i = 1; i < 4; i++)
        assert_int_equal(sockets[i], -1);
    return sockets[0];
}

static int client_connect(void)
{
    struct sockaddr_in address;
    socklen_t address_bytes = sizeof address;
    int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(
        getsockname(listening_socket(), (struct sockaddr *)(void *)&address, &address_bytes), 0);
    assert_int_equal(connect(client, (struct sockaddr *)(void *)&address, address_bytes), 0);
    return client;
}

/* A client that sent a request after which the server closes. */
static int client_open(const char *line, const char *headers)
{
    char request[512];
    int client = client_connect();
    snprintf(request, sizeof request,
             "%s HTTP/1.1\r\n%sConnection: close\r\nContent-Length: 2\r\n\r\nhi", line, headers);
    assert_int_equal(send(client, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    return client;
}

static void turn(void)
{
    event_base_loop(base, EVLOOP_NONBLOCK);
    usleep(200);
}

static void reply_receive(int client)
{
    size_t received = 0;
    for (ssize_t count = -1; count != 0;) {
        turn();
        count = recv(client, reply + received, sizeof reply - 1 - received, MSG_DONTWAIT);
        received += count > 0 ? (size_t)count : 0;
    }
    reply[received] = '\0';
    close(client);
}

static void ask(const char *line, const char *headers)
{
    reply_receive(client_open(line, headers));
}

static void a_server_tells_its_sockets(void **state)
{
    (void)state;
    int listens = 0;
    start(false);
    socklen_t bytes = sizeof listens;
    assert_int_equal(getsockopt(listening_socket(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes),
                     0);
    assert_int_equal(listens, 1);
    stop();
}

#define KEY "Host: h\r\nAuthorization: Bearer sk-key\r\n"

struct refused {
    const char *line, *headers, *status;
};

static void expect_refused(const struct refused *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char status[32];
        ask(cases[i].line, cases[i].headers);
        snprintf(status, sizeof status, "HTTP/1.1 %s ", cases[i].status);
        if (strncmp(reply, status, strlen(status)) != 0 || strstr(reply + 1, "HTTP/1.1"))
            fail_msg("%s %s: %s", cases[i].line, cases[i].headers, reply);
        assert_int_equal(handled, 0);
    }
}

static void expect_handled(const char *line, const char *headers)
{
    ask(line, headers);
    assert_memory_equal(reply, "HTTP/1.1 200 OK\r\n", 17);
    assert_int_equal(handled, 1);
}

static void refused_requests_with_keys_are_not_handled(void **state)
{
    (void)state;
    static const struct refused cases[] = {
        {"POST /post", "Host: h\r\n", "401"},
        {"POST /post", "Host: h\r\nAuthorization: Bearer sk-other\r\n", "401"},
        {"POST /nowhere", KEY, "404"},
        {"PUT /post", KEY, "405"},
        {"POST /admin", KEY, "403"},
        {"POST /post", KEY "Content-Encoding: nonsense\r\n", "415"},
    };
    start(true);
    expect_refused(cases, sizeof cases / sizeof cases[0]);
    expect_handled("POST /post", KEY);
    stop();
}

/* Without keys a page of another site must not reach a server of this machine. */
static void foreign_requests_are_not_handled(void **state)
{
    (void)state;
    static const struct refused cases[] = {
        {"POST /post", "Host: evil.example\r\n", "403"},
        {"POST /post", "Host: h\r\nOrigin: http://evil.example\r\n", "403"},
    };
    start(false);
    expect_refused(cases, sizeof cases / sizeof cases[0]);
    expect_handled("POST /post", "Host: h\r\nOrigin: http://localhost:3000\r\n");
    stop();
}

/* Connections that are there get one more reply. */
static void a_paused_server_accepts_no_connection(void **state)
{
    (void)state;
    static const char request[] = "POST /post HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n";
    start(false);
    int early = client_connect();
    while (http_server_counters(server)->connections == 0)
        turn();
    http_server_pause(server);
    int late = client_open("POST /post", "Host: h\r\n");
    for (int i = 0; i < 20; i++)
        turn();
    assert_int_equal(handled, 0);
    assert_int_equal(send(early, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
    reply_receive(early);
    assert_non_null(strstr(reply, "\r\nConnection: close\r\n"));
    assert_int_equal(handled, 1);
    http_server_accept(server);
    reply_receive(late);
    assert_memory_equal(reply, "HTTP/1.1 200 OK\r\n", 17);
    assert_int_equal(handled, 2);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_tells_its_sockets),
        cmocka_unit_test(refused_requests_with_keys_are_not_handled),
        cmocka_unit_test(foreign_requests_are_not_handled),
        cmocka_unit_test(a_paused_server_accepts_no_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
