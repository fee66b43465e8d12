/*
 * A server and its clients in one thread: the loop turns while a client waits. Replies, keep-alive,
 * pipelining, limits, time-outs, and a client's departure while its request is in progress.
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
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "frontend/api/messages/messages_error.h"
#include "frontend/http/api_keys.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/http_server.h"
#include "frontend/http/sse_stream.h"

#define PATIENCE_MS 60000 /* of tests that are not about time */

static struct event_base *base;
static struct http_server *server;
static struct http_exchange *held;
static int gone_count;
static struct text_buffer reply;

static void on_gone(void *context)
{
    (void)context;
    held = NULL;
    gone_count++;
}

static void handle_echo(void *context, struct http_exchange *exchange)
{
    (void)context;
    const struct http_parser *request = exchange->request;
    http_reply_whole(exchange, 200, "text/plain", request->body ? request->body : "",
                     request->body_bytes);
}

static void handle_hold(void *context, struct http_exchange *exchange)
{
    (void)context;
    held = exchange;
    http_exchange_on_gone(exchange, on_gone, NULL);
}

static void handle_path(void *context, struct http_exchange *exchange)
{
    (void)context;
    struct text_buffer words = {0};
    text_buffer_append_format(&words, "%s %s", exchange->request->method_name,
                              exchange->request->path);
    http_reply_whole(exchange, 200, "text/plain", words.bytes, words.length);
    text_buffer_fini(&words);
}

static const struct http_route routes[] = {
    {"/echo", HTTP_POST, false, false, NULL, NULL, handle_echo},
    {"/get", HTTP_GET, true, false, NULL, NULL, handle_echo},
    {"/get/", HTTP_GET, true, false, NULL, NULL, handle_echo},
    {"/hold", HTTP_POST, false, false, NULL, NULL, handle_hold},
    {"/messages", HTTP_POST, false, false, messages_error_write, NULL, handle_echo},
    {"/admin", HTTP_GET, false, true, NULL, NULL, handle_echo},
    {"/admin", HTTP_POST, false, true, NULL, NULL, handle_hold},
    {"/", HTTP_GET, false, false, NULL, NULL, handle_path},
    {"/things", HTTP_POST, false, false, NULL, NULL, handle_echo},
    {"/things/", HTTP_GET, false, false, NULL, NULL, handle_path},
    {"/things/", HTTP_DELETE, false, false, NULL, NULL, handle_path},
};

static const char *const hosts[] = {"h"};

static struct http_server_config config_make(uint32_t max_connections, int request_timeout_ms,
                                             int idle_timeout_ms)
{
    return (struct http_server_config){.listen = {.host = "127.0.0.1"},
                                       .max_connections = max_connections,
                                       .max_held_body_bytes = 1u << 20,
                                       .connection = {.max_head_bytes = 1024,
                                                      .max_body_bytes = 100000,
                                                      .request_timeout_ms = request_timeout_ms,
                                                      .idle_timeout_ms = idle_timeout_ms,
                                                      .max_unsent_bytes = 1u << 20,
                                                      .write_timeout_ms = PATIENCE_MS},
                                       .origins = {.hosts = hosts, .host_count = 1},
                                       .routes = routes,
                                       .route_count = sizeof routes / sizeof routes[0]};
}

static void start_config(const struct http_server_config *config)
{
    struct error_text error;
    log_init("test", LOG_ERROR);
    base = event_base_new();
    assert_int_equal(http_server_create(base, config, &server, &error), RESULT_OK);
    held = NULL;
    gone_count = 0;
}

static void start(uint32_t max_connections, int request_timeout_ms, int idle_timeout_ms)
{
    struct http_server_config config =
        config_make(max_connections, request_timeout_ms, idle_timeout_ms);
    start_config(&config);
}

static int setup(void **state)
{
    (void)state;
    start(4, PATIENCE_MS, PATIENCE_MS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_server_destroy(server);
    event_base_free(base);
    text_buffer_fini(&reply);
    reply = (struct text_buffer){0};
    return 0;
}

/* Runs the loop for 0.5 ms at a time, longer on a busy machine. */
static void turn(int times)
{
    for (int i = 0; i < times; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(500);
    }
}

/* Runs the loop until the condition holds; only a failing test waits long. */
#define TURN_UNTIL(condition)                                                                      \
    do {                                                                                           \
        for (int turns_left = 100000; turns_left > 0 && !(condition); turns_left--)                \
            turn(1);                                                                               \
        assert_true(condition);                                                                    \
    } while (0)

static int client_connect(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(http_server_port(server)),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    assert_int_equal(connect(fd, (struct sockaddr *)(void *)&address, sizeof address), 0);
    return fd;
}

static int client_open(void)
{
    uint32_t before = http_server_connections(server);
    int fd = client_connect();
    TURN_UNTIL(http_server_connections(server) == before + 1);
    return fd;
}

static void client_close(int fd)
{
    close(fd);
    TURN_UNTIL(http_server_connections(server) == 0);
}

static void client_send(int fd, const char *bytes)
{
    assert_int_equal(send(fd, bytes, strlen(bytes), MSG_NOSIGNAL), (ssize_t)strlen(bytes));
    turn(4);
}

/* Sends a request whose handler keeps it. */
static void client_send_held(int fd, const char *bytes)
{
    held = NULL;
    client_send(fd, bytes);
    TURN_UNTIL(held != NULL);
}

/* Appends received bytes to `reply` until it contains `words` or, if NULL, to the end of the
 * connection. Returns false at the end. */
static bool client_receive(int fd, const char *words)
{
    char bytes[65536];
    for (int turns_left = 100000; turns_left > 0; turns_left--) {
        turn(1);
        ssize_t count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (count == 0)
            return false;
        if (count > 0)
            text_buffer_append(&reply, bytes, (size_t)count);
        if (words && reply.bytes && strstr(reply.bytes, words))
            return true;
    }
    fail_msg("neither '%s' nor an end", words ? words : "");
    return true;
}

static void assert_reply_has(const char *words)
{
    if (!reply.bytes || !strstr(reply.bytes, words))
        print_error("no '%s' in: %s\n", words, reply.bytes ? reply.bytes : "(nothing)");
    assert_non_null(reply.bytes);
    assert_non_null(strstr(reply.bytes, words));
}

/* One request on its own connection. */
static void ask(const char *request)
{
    text_buffer_clear(&reply);
    int fd = client_open();
    client_send(fd, request);
    (void)client_receive(fd, "\r\n\r\n");
    client_close(fd);
}

static void a_post_is_answered_and_the_connection_kept(void **state)
{
    (void)state;
    int fd = client_open();
    for (int i = 0; i < 3; i++) {
        client_send(fd, "POST /echo HTTP/1.1\r\nHost: h\r\nX-Request-Id: mine\r\n"
                        "Content-Length: 5\r\n\r\nhello");
        assert_true(client_receive(fd, "hello"));
        assert_reply_has("HTTP/1.1 200 OK\r\n");
        assert_reply_has("\r\nx-request-id: mine\r\nrequest-id: mine\r\n");
        assert_reply_has("Content-Length: 5\r\n\r\nhello");
        text_buffer_clear(&reply);
    }
    assert_int_equal(http_server_connections(server), 1);
    client_close(fd);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    int fd = client_open();
    client_send_held(fd, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\none"
                         "POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
                         "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nthree");
    turn(10);
    assert_true(client_receive(fd, "one"));
    assert_null(strstr(reply.bytes, "three"));
    http_reply_whole(held, 200, "text/plain", "two", 3);
    assert_true(client_receive(fd, "three"));
    assert_true(strstr(reply.bytes, "two") < strstr(reply.bytes, "three"));
    assert_int_equal(gone_count, 0);
    close(fd);
}

static void refusals_have_status_and_json(void **state)
{
    (void)state;
    ask("GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_reply_has("HTTP/1.1 404 ");
    assert_reply_has("{\"error\":{\"message\":\"unknown request URL: GET /nowhere\"");
    ask("GET /echo HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_reply_has("HTTP/1.1 405 ");
    assert_reply_has("Allow: POST, OPTIONS\r\n");
    ask("BREW /echo HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_reply_has("HTTP/1.1 405 ");
    ask("OPTIONS /echo HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_reply_has("HTTP/1.1 204 ");
    assert_reply_has("Allow: POST, OPTIONS\r\n");
    ask("HEAD /get/below HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_reply_has("HTTP/1.1 200 ");
    ask("nonsense\r\n\r\n");
    assert_reply_has("HTTP/1.1 400 ");
    assert_reply_has("Connection: close\r\n");
    assert_reply_has("\"type\":\"invalid_request_error\"");
}

/* The server has no keys and listens on 127.0.0.1. */
static void foreign_hosts_and_pages_are_refused(void **state)
{
    (void)state;
    ask("GET /get HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_reply_has("HTTP/1.1 403 ");
    assert_reply_has("\"foreign_host\"");
    ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nContent-Length: "
        "0\r\n\r\n");
    assert_reply_has("HTTP/1.1 403 ");
    assert_reply_has("\"foreign_origin\"");
    assert_int_equal(http_server_counters(server)->requests_foreign, 2);
    ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: "
        "0\r\n\r\n");
    assert_reply_has("HTTP/1.1 200 ");
}

static void a_path_has_a_row_for_each_method(void **state)
{
    (void)state;
    ask("DELETE /things/7 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_reply_has("\r\n\r\nDELETE /things/7");
    ask("GET /things/7/parts HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_reply_has("\r\n\r\nGET /things/7/parts");
    ask("POST /things/7 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    assert_reply_has("HTTP/1.1 405 ");
    assert_reply_has("Allow: GET, HEAD, DELETE, OPTIONS\r\n");
    ask("GET /things HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_reply_has("HTTP/1.1 405 ");
    assert_reply_has("Allow: POST, OPTIONS\r\n");
    ask("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_reply_has("HTTP/1.1 404 ");
}

/* Also errors before a handler or the end of the head is reached. */
static void errors_have_the_shape_of_their_path(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        const char *status;
        const char *type;
    } cases[] = {
        {"GET /messages HTTP/1.1\r\nHost: h\r\n\r\n", "405 ", "invalid_request_error"},
        {"POST /messages/batches HTTP/1.1\r\nHost: h\r\n\r\n", "404 ", "not_found_error"},
        {"POST /messages HTTP/1.1\r\nHost: h\r\nContent-Length: 100001\r\n\r\n", "413 ",
         "request_too_large"},
        {"POST /messages HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: x\r\n\r\n", "501 ", "api_error"},
        {"POST /messages HTTP/1.1\r\n\r\n", "400 ", "invalid_request_error"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char body[128];
        snprintf(body, sizeof body, "\r\n\r\n{\"type\":\"error\",\"error\":{\"type\":\"%s\"",
                 cases[i].type);
        ask(cases[i].request);
        assert_reply_has(cases[i].status);
        assert_reply_has(body);
        assert_reply_has("\"request_id\":\"req-");
    }
    ask("GET /messagesque HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_reply_has("\r\n\r\n{\"error\":{\"message\":");
}

static void a_too_large_body_is_refused_before_it_is_sent(void **state)
{
    (void)state;
    ask("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100001\r\nExpect: 100-continue\r\n\r\n");
    assert_reply_has("HTTP/1.1 413 ");
    assert_null(strstr(reply.bytes, "100 Continue"));
}

static void an_expected_continue_is_sent(void **state)
{
    (void)state;
    int fd = client_open();
    client_send(fd, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n"
                    "Expect: 100-continue\r\n\r\n");
    assert_true(client_receive(fd, "HTTP/1.1 100 Continue\r\n\r\n"));
    client_send(fd, "ok");
    assert_true(client_receive(fd, "200 OK"));
    close(fd);
}

static void a_client_that_leaves_is_noticed_while_its_request_waits(void **state)
{
    (void)state;
    int fd = client_open();
    client_send_held(fd, "POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    client_close(fd);
    assert_int_equal(gone_count, 1);
}

static void a_reset_is_noticed_too(void **state)
{
    (void)state;
    int fd = client_open();
    client_send_held(fd, "POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\npipelined");
    struct linger now = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    client_close(fd);
    assert_int_equal(gone_count, 1);
}

static void too_many_bytes_after_a_request_close_the_connection(void **state)
{
    (void)state;
    static char flood[80000];
    memset(flood, 'x', sizeof flood - 1);
    int fd = client_open();
    client_send_held(fd, "POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    (void)!send(fd, flood, sizeof flood - 1, MSG_NOSIGNAL);
    TURN_UNTIL(gone_count == 1);
    close(fd);
}

static void connections_over_the_maximum_get_503(void **state)
{
    (void)state;
    int fds[4];
    for (int i = 0; i < 4; i++)
        fds[i] = client_open();
    int extra = client_connect();
    assert_false(client_receive(extra, NULL));
    assert_reply_has("HTTP/1.1 503 ");
    assert_reply_has("Retry-After: 1\r\n");
    const char *body = strstr(reply.bytes, "\r\n\r\n") + 4;
    char length[40];
    snprintf(length, sizeof length, "Content-Length: %zu\r\n", strlen(body));
    assert_reply_has(length);
    close(extra);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}

static void a_stream_is_chunked_and_ends(void **state)
{
    (void)state;
    int fd = client_open();
    struct sse_stream stream;
    client_send_held(fd, "POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    sse_stream_open(&stream, held, 1000, 0, "data: w\n\n", 9);
    assert_int_equal(sse_stream_send(&stream, "data: x\n\n", 9, 5), RESULT_OK);
    sse_stream_keep_alive(&stream, 10, 6); /* too early */
    sse_stream_keep_alive(&stream, 11, 6);
    sse_stream_keep_alive(&stream, 12, 6); /* just sent */
    assert_int_equal(sse_stream_close(&stream, "data: z\n\n", 9), RESULT_OK);
    assert_true(client_receive(fd, "\r\n0\r\n\r\n"));
    assert_reply_has("Content-Type: text/event-stream");
    assert_reply_has("Cache-Control: no-cache\r\n");
    assert_reply_has("X-Accel-Buffering: no\r\n");
    assert_reply_has("\r\n\r\n9\r\ndata: w\n\n\r\n9\r\ndata: x\n\n\r\n"
                     "e\r\n: keep-alive\n\n\r\n9\r\ndata: z\n\n\r\n0\r\n\r\n");
    assert_int_equal(gone_count, 0);
    close(fd);
}

static void a_stream_to_an_old_client_ends_with_the_connection(void **state)
{
    (void)state;
    int fd = client_open();
    struct sse_stream stream;
    client_send_held(fd, "POST /hold HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
    sse_stream_open(&stream, held, 1000, 0, NULL, 0);
    assert_int_equal(sse_stream_send(&stream, "data: x\n\n", 9, 5), RESULT_OK);
    assert_int_equal(sse_stream_close(&stream, NULL, 0), RESULT_OK);
    assert_false(client_receive(fd, NULL));
    assert_reply_has("\r\n\r\ndata: x\n\n");
    close(fd);
}

static void a_slow_reader_is_cut_at_its_limit(void **state)
{
    (void)state;
    static char event[10000];
    memset(event, 'e', sizeof event);
    int fd = client_open();
    struct sse_stream stream;
    client_send_held(fd, "POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    sse_stream_open(&stream, held, 50000, 0, NULL, 0);
    int sent = 0;
    while (sent < 10000 && sse_stream_send(&stream, event, sizeof event, 0) == RESULT_OK)
        sent++;
    assert_in_range(sent, 5, 9999);
    assert_in_range(http_reply_unsent_bytes(held), 1, 50000);
    sse_stream_abort(&stream);
    TURN_UNTIL(http_server_connections(server) == 0);
    assert_int_equal(gone_count, 0); /* the server closed it */
    close(fd);
}

static void a_refusal_is_sent_after_the_head_and_closes(void **state)
{
    (void)state;
    int fd = client_open();
    client_send(fd, "POST /nowhere HTTP/1.1\r\nHost: h\r\nContent-Length: 90000\r\n\r\n");
    assert_false(
        client_receive(fd, NULL)); /* its end: the body would be in the next request's way */
    assert_reply_has("HTTP/1.1 404 ");
    assert_reply_has("Connection: close\r\n");
    static char body[90000];
    (void)!send(fd, body, sizeof body, MSG_NOSIGNAL);
    turn(20);
    client_close(fd);
    /* Without a body the connection is kept. */
    text_buffer_clear(&reply);
    fd = client_open();
    client_send(fd, "POST /nowhere HTTP/1.1\r\nHost: h\r\n\r\n"
                    "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok");
    assert_true(client_receive(fd, "\r\n\r\nok"));
    assert_reply_has("HTTP/1.1 404 ");
    close(fd);
}

static void slow_readers_share_a_limit(void **state)
{
    (void)state;
    static char event[100000];
    memset(event, 'e', sizeof event);
    int fds[2];
    struct sse_stream streams[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = client_open();
        client_send_held(fds[i], "POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
        sse_stream_open(&streams[i], held, 100u << 20, 0, NULL, 0);
    }
    /* The limit of both together is 1 MB: the first reaches it, the second is not cut for it. */
    int sent = 0;
    while (sent < 10000 && sse_stream_send(&streams[0], event, sizeof event, 0) == RESULT_OK)
        sent++;
    assert_in_range(sent, 10, 9999);
    assert_in_range(http_server_unsent_bytes(server), 1u << 20, (1u << 20) + sizeof event + 100);
    assert_int_equal(sse_stream_send(&streams[1], "data: x\n\n", 9, 0), RESULT_OK);
    assert_int_equal(http_server_unsent_bytes(server),
                     http_reply_unsent_bytes(streams[0].exchange));
    sse_stream_abort(&streams[0]);
    TURN_UNTIL(http_server_unsent_bytes(server) == 0);
    assert_int_equal(sse_stream_close(&streams[1], NULL, 0), RESULT_OK);
    close(fds[0]);
    close(fds[1]);
}

static void a_slowly_arriving_request_times_out(void **state)
{
    teardown(state);
    start(4, 200, PATIENCE_MS);
    int fd = client_open();
    char bytes[4096];
    ssize_t count = -1;
    client_send(fd, "POST /echo");
    /* A full head, byte by byte: the bytes must not extend the time. */
    for (int sent = 10; sent < 1000 && count < 0; sent++) {
        (void)!send(fd, "T", 1, MSG_NOSIGNAL);
        turn(4);
        count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    }
    assert_true(count > 0);
    text_buffer_append(&reply, bytes, (size_t)count);
    assert_reply_has("HTTP/1.1 408 ");
    close(fd);
}

static void an_idle_connection_is_closed(void **state)
{
    teardown(state);
    start(4, PATIENCE_MS, 50);
    int fd = client_open();
    TURN_UNTIL(http_server_connections(server) == 0);
    close(fd);
}

static void a_request_in_progress_has_no_time_limit(void **state)
{
    teardown(state);
    start(4, 500, 500); /* the client is faster than that */
    int fd = client_open();
    client_send_held(fd, "POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    turn(2000);
    assert_int_equal(gone_count, 0);
    http_reply_whole(held, 200, "text/plain", "late", 4);
    (void)client_receive(fd, "late");
    assert_reply_has("late");
    close(fd);
}

static void options_of_the_server_name_every_method(void **state)
{
    (void)state;
    ask("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_reply_has("HTTP/1.1 204 ");
    assert_reply_has("\r\nAllow: GET, HEAD, POST, DELETE, OPTIONS\r\n");
    assert_true(reply.length > 4);
    assert_memory_equal(reply.bytes + reply.length - 4, "\r\n\r\n", 4); /* no body */
    ask("GET * HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_reply_has("HTTP/1.1 404 ");
    ask("OPTIONS /nowhere HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_reply_has("HTTP/1.1 404 ");
}

static void a_slash_covers_what_is_below_it(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int status;
    } cases[] = {{"/", 200},     {"/get", 200}, {"/get/a", 200}, {"/get/", 200},
                 {"/getx", 404}, {"/ge", 404},  {"/echo/", 405}, {"/echo/a", 404}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char request[80], status[16];
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", cases[i].path);
        snprintf(status, sizeof status, "HTTP/1.1 %d ", cases[i].status);
        ask(request);
        assert_reply_has(status);
    }
}

static void a_key_opens_what_its_rights_allow(void **state)
{
    (void)state;
    static const char *const given[] = {"sk-user"};
    struct api_keys_config key_config = {.given = given, .given_count = 1};
    struct api_keys *keys;
    struct error_text error;
    ask("GET /admin HTTP/1.1\r\nHost: h\r\n\r\n"); /* without keys everyone may */
    assert_reply_has("HTTP/1.1 200 ");
    for (int admin = 0; admin < 2; admin++) {
        teardown(state);
        key_config.defaults.admin = admin != 0;
        assert_int_equal(api_keys_create(&key_config, &keys, &error), RESULT_OK);
        struct http_server_config config = config_make(4, PATIENCE_MS, PATIENCE_MS);
        config.keys = keys;
        start_config(&config);
        ask("GET /things/1 HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_reply_has("HTTP/1.1 401 ");
        assert_reply_has("\"invalid_api_key\"");
        assert_int_equal(http_server_counters(server)->requests_unauthorized, 1);
        ask("GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n"); /* nothing about paths */
        assert_reply_has("HTTP/1.1 401 ");
        ask("GET /get HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_reply_has("HTTP/1.1 200 ");
        ask("OPTIONS /things/1 HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_reply_has("HTTP/1.1 204 ");
        /* Hosts are not checked on a server with keys. */
        ask("GET /things/1 HTTP/1.1\r\nHost: evil.example\r\nx-api-key: sk-user\r\n\r\n");
        assert_reply_has("HTTP/1.1 200 ");
        ask("GET /admin HTTP/1.1\r\nHost: h\r\nx-api-key: sk-user\r\n\r\n");
        assert_reply_has(admin ? "HTTP/1.1 200 " : "HTTP/1.1 403 ");
        if (!admin) {
            assert_reply_has("\"admin_key_required\"");
            ask("POST /admin HTTP/1.1\r\nHost: h\r\nx-api-key: sk-user\r\n"
                "Content-Length: 2\r\n\r\nok"); /* the body does not start the handler */
            assert_true(!held && gone_count == 0);
        }
        assert_int_equal(http_server_counters(server)->requests_unauthorized, 2);
        http_server_destroy(server);
        server = NULL;
        api_keys_destroy(keys);
        event_base_free(base);
        base = event_base_new(); /* for the teardown */
    }
}

static void posts_of_a_client_have_a_maximum(void **state)
{
    teardown(state);
    struct http_server_config config = config_make(4, PATIENCE_MS, PATIENCE_MS);
    config.max_requests_per_client = 1;
    start_config(&config);
    int first = client_open(), second = client_open();
    for (int round = 0; round < 2; round++) {
        client_send_held(first, "POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
        text_buffer_clear(&reply);
        client_send(second, "POST /echo HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_true(client_receive(second, "}}"));
        assert_reply_has("HTTP/1.1 429 ");
        assert_reply_has("\r\nRetry-After: 1\r\n");
        assert_reply_has("1 requests of your address");
        text_buffer_clear(&reply);
        client_send(second, "GET /get HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_true(client_receive(second, "\r\n\r\n"));
        assert_reply_has("HTTP/1.1 200 ");
        http_reply_whole(held, 200, NULL, "", 0);
        text_buffer_clear(&reply);
        client_send(second, "POST /echo HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_true(client_receive(second, "\r\n\r\n"));
        assert_reply_has("HTTP/1.1 200 ");
    }
    assert_int_equal(http_server_counters(server)->requests_over_client_limit, 2);
    close(first);
    client_close(second);
}

/* A small body takes 4096 bytes. */
static void bodies_that_arrive_share_a_limit(void **state)
{
    teardown(state);
    struct http_server_config config = config_make(4, PATIENCE_MS, PATIENCE_MS);
    config.max_held_body_bytes = 4096;
    start_config(&config);
    int first = client_open(), second = client_open();
    for (int round = 0; round < 2; round++) {
        client_send(first, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\no");
        TURN_UNTIL(http_server_busy_connections(server) == 1);
        turn(4);
        text_buffer_clear(&reply);
        client_send(second, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
        assert_false(client_receive(second, NULL));
        assert_reply_has("HTTP/1.1 503 ");
        close(second);
        TURN_UNTIL(http_server_connections(server) == 1);
        second = client_open();
        text_buffer_clear(&reply);
        client_send(first, "k");
        assert_true(client_receive(first, "\r\n\r\nok"));
        assert_reply_has("HTTP/1.1 200 ");
    }
    close(first);
    close(second);
}

static void connections_are_counted_wherever_they_are_in_the_list(void **state)
{
    (void)state;
    static const int order[3] = {1, 2, 0};
    int fds[3];
    for (int i = 0; i < 3; i++)
        fds[i] = client_open();
    assert_int_equal(http_server_busy_connections(server), 0);
    for (int i = 0; i < 3; i++)
        client_send_held(fds[i], "POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    assert_int_equal(http_server_busy_connections(server), 3);
    for (uint32_t i = 0; i < 3; i++) {
        close(fds[order[i]]);
        TURN_UNTIL(http_server_connections(server) == 2 - i);
        assert_int_equal(http_server_busy_connections(server), 2 - i);
    }
    assert_int_equal(http_server_counters(server)->connections, 3);
    assert_int_equal(http_server_counters(server)->connections_refused, 0);
    assert_int_equal(http_server_counters(server)->requests, 3);
}

/* The server's end of the client's connection, in this process. */
static int server_end(int client)
{
    struct sockaddr_in own, peer;
    socklen_t bytes = sizeof own;
    assert_int_equal(getsockname(client, (struct sockaddr *)(void *)&own, &bytes), 0);
    for (int fd = 3; fd < 256; fd++) {
        bytes = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)(void *)&peer, &bytes) == 0 &&
            peer.sin_family == AF_INET && peer.sin_port == own.sin_port)
            return fd;
    }
    fail_msg("no such socket");
    return -1;
}

static void small_writes_are_not_delayed_and_few_bytes_are_in_the_kernel(void **state)
{
    (void)state;
    int client = client_open();
    int fd = server_end(client), value = 0;
    socklen_t bytes = sizeof value;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &bytes), 0);
    assert_true(value != 0);
    bytes = sizeof value;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &value, &bytes), 0);
    assert_int_equal(value, 16384);
    close(client);
}

static void an_address_in_use_is_an_error(void **state)
{
    (void)state;
    struct http_server_config config = config_make(4, PATIENCE_MS, PATIENCE_MS);
    struct http_server *other = NULL;
    struct error_text error;
    config.max_requests_per_client = 1;
    config.listen.port = http_server_port(server);
    assert_int_equal(http_server_create(base, &config, &other, &error), RESULT_IO);
    assert_null(other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_post_is_answered_and_the_connection_kept),
        TEST(pipelined_requests_are_answered_in_order),
        TEST(refusals_have_status_and_json),
        TEST(foreign_hosts_and_pages_are_refused),
        TEST(a_path_has_a_row_for_each_method),
        TEST(errors_have_the_shape_of_their_path),
        TEST(a_too_large_body_is_refused_before_it_is_sent),
        TEST(an_expected_continue_is_sent),
        TEST(a_client_that_leaves_is_noticed_while_its_request_waits),
        TEST(a_reset_is_noticed_too),
        TEST(too_many_bytes_after_a_request_close_the_connection),
        TEST(connections_over_the_maximum_get_503),
        TEST(a_stream_is_chunked_and_ends),
        TEST(a_stream_to_an_old_client_ends_with_the_connection),
        TEST(a_slow_reader_is_cut_at_its_limit),
        TEST(a_refusal_is_sent_after_the_head_and_closes),
        TEST(slow_readers_share_a_limit),
        TEST(a_slowly_arriving_request_times_out),
        TEST(an_idle_connection_is_closed),
        TEST(a_request_in_progress_has_no_time_limit),
        TEST(options_of_the_server_name_every_method),
        TEST(a_slash_covers_what_is_below_it),
        TEST(a_key_opens_what_its_rights_allow),
        TEST(posts_of_a_client_have_a_maximum),
        TEST(bodies_that_arrive_share_a_limit),
        TEST(connections_are_counted_wherever_they_are_in_the_list),
        TEST(small_writes_are_not_delayed_and_few_bytes_are_in_the_kernel),
        TEST(an_address_in_use_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
