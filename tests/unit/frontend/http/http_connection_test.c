/*
 * The life of one connection: what each state does with bytes, timers and the client's departure.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/tls_context.h"
#include "proto/log.h"
#include "tests/support/connection_rig.h"
#include "tests/support/no_memory.h"
#include "tests/support/sanitized.h"
#include "tests/support/tls_peer.h"

#define GET         "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
#define CLOSING     "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
#define POST(bytes) "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " #bytes "\r\n\r\n"

#define IDLE_MS    60000999 /* tells seconds from thousandths */
#define REQUEST_MS 50000000
#define WRITE_MS   40000000
#define LINGER_MS  2000
#define NO_TIMER   (-1)

static struct connection_rig rig;
static int server_fd;
static char big[1000000];

static int setup(void **state)
{
    (void)state;
    log_init("test", LOG_ERROR);
    signal(SIGPIPE, SIG_IGN); /* as the frontend does */
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)('a' + i % 23);
    connection_rig_init(&rig);
    rig.config.idle_timeout_ms = IDLE_MS;
    rig.config.request_timeout_ms = REQUEST_MS;
    rig.config.write_timeout_ms = WRITE_MS;
    server_fd = connection_rig_pair(&rig);
    connection_rig_open(&rig, server_fd, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    connection_rig_fini(&rig);
    return 0;
}

static int timer_look(const struct event_base *base, const struct event *event, void *context)
{
    (void)base;
    struct timeval at, now, left;
    int64_t *left_ms = context;
    if (event_pending(event, EV_TIMEOUT, &at)) {
        gettimeofday(&now, NULL);
        timersub(&at, &now, &left);
        *left_ms = (int64_t)left.tv_sec * 1000 + left.tv_usec / 1000;
    }
    return 0;
}

/* Milliseconds to the timer's end. */
static int64_t timer_ms(void)
{
    int64_t left_ms = NO_TIMER;
    assert_int_equal(event_base_foreach_event(rig.base, timer_look, &left_ms), 0);
    return left_ms;
}

/* The timer was started with this time some moments ago. */
static void assert_timer(int64_t timeout_ms)
{
    assert_in_range(timer_ms(), timeout_ms - 800, timeout_ms + 20);
}

static void reply(const char *body)
{
    assert_non_null(rig.exchange);
    http_reply_whole(rig.exchange, 200, NULL, body, strlen(body));
}

/* Writes to the server's socket until it takes no more; returns the bytes. */
static size_t socket_fill(void)
{
    size_t filled = 0;
    for (size_t piece = 4096; piece > 0; piece /= 2) {
        ssize_t count;
        while ((count = send(server_fd, big, piece, MSG_DONTWAIT)) > 0)
            filled += (size_t)count;
    }
    return filled;
}

static void client_leave(void)
{
    close(rig.client);
    rig.client = -1;
    connection_rig_turn(&rig);
}

static void a_timer_runs_unless_a_request_is_handled(void **state)
{
    (void)state;
    assert_timer(IDLE_MS);
    connection_rig_send(&rig, "G");
    assert_timer(REQUEST_MS);
    usleep(30000);
    int64_t before_ms = timer_ms();
    connection_rig_send(&rig, "ET / HTTP/1.1\r\n");
    assert_true(timer_ms() <= before_ms + 10); /* more bytes give no more time */
    connection_rig_send(&rig, "Host: h\r\n\r\n");
    assert_int_equal(timer_ms(), NO_TIMER);
    reply("");
    assert_timer(IDLE_MS);
    connection_rig_request(&rig, CLOSING);
    assert_int_equal(timer_ms(), NO_TIMER);
    reply("");
    assert_timer(LINGER_MS);
}

static void an_unread_reply_has_a_timer_that_progress_restarts(void **state)
{
    (void)state;
    static char bytes[65536];
    connection_rig_request(&rig, GET);
    http_reply_whole(rig.exchange, 200, NULL, big, sizeof big);
    assert_timer(WRITE_MS);
    assert_int_equal(rig.over_count, 0);
    usleep(50000);
    int64_t before_ms = timer_ms();
    connection_rig_turn(&rig); /* without progress */
    assert_true(timer_ms() <= before_ms);
    while (recv(rig.client, bytes, sizeof bytes, 0) > 0)
        continue;
    connection_rig_turn(&rig);
    assert_true(timer_ms() > before_ms + 20);
    assert_true(rig.unsent_bytes > 0);
    const char *text = connection_rig_receive(&rig);
    assert_memory_equal(text + strlen(text) - 1000, big + sizeof big - 1000, 1000);
    assert_int_equal(rig.unsent_bytes, 0);
    assert_true(rig.complete);
    assert_timer(IDLE_MS);
}

static void idle_is_between_requests_only(void **state)
{
    (void)state;
    assert_true(http_connection_is_idle(rig.connection));
    connection_rig_send(&rig, "GET /");
    assert_false(http_connection_is_idle(rig.connection));
    connection_rig_send(&rig, " HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_false(http_connection_is_idle(rig.connection));
    reply("");
    assert_true(http_connection_is_idle(rig.connection));
    connection_rig_request(&rig, CLOSING);
    reply("");
    assert_false(http_connection_is_idle(rig.connection)); /* it lingers */
}

static void expect_closed_after_timer(void)
{
    for (int turns_left = 10000; turns_left > 0 && rig.connection; turns_left--) {
        connection_rig_turn(&rig);
        usleep(1000);
    }
    assert_null(rig.connection);
}

static void an_idle_connection_is_closed_without_a_reply(void **state)
{
    (void)state;
    rig.config.idle_timeout_ms = 20;
    connection_rig_request(&rig, GET);
    reply("");
    (void)connection_rig_receive(&rig);
    expect_closed_after_timer();
    assert_string_equal(connection_rig_receive(&rig), "");
    assert_int_equal(rig.counters.handshakes_failed, 0);
    assert_int_equal(rig.counters.requests_too_slow, 0);
    assert_int_equal(rig.counters.requests, 1);
}

static void a_slow_request_is_refused(void **state)
{
    (void)state;
    rig.config.request_timeout_ms = 20;
    connection_rig_send(&rig, "GET / HTTP/1.1\r\n");
    for (int turns_left = 10000; turns_left > 0 && rig.refused_status == 0; turns_left--) {
        connection_rig_turn(&rig);
        usleep(1000);
    }
    assert_int_equal(rig.refused_status, 408);
    assert_int_equal(rig.counters.requests_too_slow, 1);
    assert_int_equal(rig.counters.requests_malformed, 0);
    assert_int_equal(rig.counters.requests, 1);
    assert_non_null(strstr(connection_rig_receive(&rig), "\r\nConnection: close\r\n"));
    assert_true(rig.at_end);
}

static void a_malformed_request_is_refused_and_the_rest_dropped(void **state)
{
    (void)state;
    connection_rig_send(&rig, "nonsense\r\n\r\n" GET);
    assert_int_equal(rig.refused_status, 400);
    assert_int_equal(rig.counters.requests_malformed, 1);
    assert_int_equal(rig.counters.requests_too_slow, 0);
    assert_non_null(strstr(connection_rig_receive(&rig), "HTTP/1.1 400 "));
    assert_true(rig.at_end);
    assert_int_equal(rig.begun_count, 1);
    assert_int_equal(rig.over_count, 1);
    assert_int_equal(rig.dispatched_count, 0);
    assert_timer(LINGER_MS);
    client_leave();
    assert_null(rig.connection);
}

/* The exchange began with the head; a body that is too large is the same exchange's end. */
static void a_malformed_body_ends_its_exchange(void **state)
{
    (void)state;
    connection_rig_send(&rig, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_int_equal(rig.admitted_count, 1);
    connection_rig_send(&rig, "x\r\n");
    assert_int_equal(rig.refused_status, 400);
    assert_int_equal(rig.begun_count, 1);
    assert_int_equal(rig.over_count, 1);
    assert_int_equal(rig.counters.requests, 1);
}

static void a_rejected_request_without_body_keeps_the_connection(void **state)
{
    (void)state;
    rig.rejects = true;
    connection_rig_send(&rig, GET);
    assert_null(strstr(connection_rig_receive(&rig), "Connection: close"));
    assert_false(rig.at_end);
    connection_rig_send(&rig, POST(2));
    assert_non_null(strstr(connection_rig_receive(&rig), "Connection: close"));
    assert_true(rig.at_end);
    assert_int_equal(rig.dispatched_count, 0);
}

static void a_rejected_request_of_a_closing_client_closes(void **state)
{
    (void)state;
    rig.rejects = true;
    connection_rig_send(&rig, CLOSING);
    (void)connection_rig_receive(&rig);
    assert_true(rig.at_end);
}

static void a_continue_is_sent_once_and_exactly(void **state)
{
    (void)state;
    connection_rig_send(&rig, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n"
                              "Expect: 100-continue\r\n\r\n");
    assert_string_equal(connection_rig_receive(&rig), "HTTP/1.1 100 Continue\r\n\r\n");
    connection_rig_send(&rig, "o");
    connection_rig_send(&rig, "k");
    assert_string_equal(connection_rig_receive(&rig), "");
    assert_int_equal(rig.dispatched_count, 1);
    reply("");
    connection_rig_send(&rig, POST(2));
    assert_null(strstr(connection_rig_receive(&rig), "100 Continue"));
}

static void bodies_are_held_until_dispatched(void **state)
{
    (void)state;
    connection_rig_send(&rig, POST(9000));
    assert_int_equal(rig.held_bytes, 0);
    big[8999] = '\0';
    connection_rig_send(&rig, big);
    assert_in_range(rig.held_bytes, 9000, 32768);
    connection_rig_send(&rig, "z");
    assert_int_equal(rig.dispatched_count, 1);
    assert_int_equal(rig.held_bytes, 0);
    reply("");
    /* A client that leaves before its body is complete. */
    connection_rig_send(&rig, POST(10000));
    connection_rig_send(&rig, big);
    assert_true(rig.held_bytes > 0);
    client_leave();
    assert_int_equal(rig.held_bytes, 0);
}

static void a_body_beyond_what_the_server_holds_is_refused(void **state)
{
    (void)state;
    rig.max_held_bytes = 4096;
    connection_rig_send(&rig, POST(9000));
    big[8999] = '\0';
    connection_rig_send(&rig, big);
    assert_int_equal(rig.refused_status, 503);
    assert_int_equal(rig.counters.requests_malformed, 1);
    assert_int_equal(rig.dispatched_count, 0);
    client_leave();
    assert_int_equal(rig.held_bytes, 0);
}

static void the_arrival_is_that_of_the_first_byte(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        int64_t before_us = monotonic_clock_us();
        connection_rig_send(&rig, "G");
        int64_t after_us = monotonic_clock_us();
        usleep(2000);
        connection_rig_request(&rig, "ET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_in_range(rig.exchange->arrived_us, before_us, after_us);
        reply("");
    }
}

/* Up to the limit exactly, in two pieces. */
static void bytes_after_a_request_are_kept_up_to_the_limit(void **state)
{
    (void)state;
    connection_rig_request(&rig, GET);
    big[LIMIT_HTTP_PENDING_BYTES / 2] = '\0';
    connection_rig_send(&rig, big);
    connection_rig_send(&rig, big);
    assert_non_null(rig.connection);
    connection_rig_send(&rig, "x");
    assert_null(rig.connection);
    assert_int_equal(rig.gone_count, 1);
    assert_int_equal(rig.over_count, 1);
}

/* They would be missing in the next request. */
static void bytes_that_cannot_be_kept_close_the_connection(void **state)
{
    (void)state;
    if (SANITIZED)
        skip();
    connection_rig_request(&rig, GET);
    big[40000] = '\0';
    assert_int_equal(send(rig.client, big, 40000, MSG_DONTWAIT), 40000);
    no_memory_begin(1 << 12);
    connection_rig_turn(&rig);
    no_memory_end();
    assert_null(rig.connection);
    assert_int_equal(rig.gone_count, 1);
}

static void kept_bytes_are_the_next_request(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        connection_rig_request(&rig, i == 0 ? GET : "ET / HTTP/1.1\r\nHost: h\r\n\r\n");
        connection_rig_send(&rig, "G");
        reply("");
        connection_rig_turn(&rig); /* one kept byte is a request that began */
        assert_false(http_connection_is_idle(rig.connection));
    }
    connection_rig_request(&rig, "ET / HTTP/1.1\r\nHost: h\r\n\r\n" GET GET);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rig.dispatched_count, 4 + i);
        reply("");
        connection_rig_turn(&rig);
    }
    assert_int_equal(rig.over_count, 6);
    assert_true(http_connection_is_idle(rig.connection));
}

static void bytes_after_the_last_request_are_dropped(void **state)
{
    (void)state;
    big[LIMIT_HTTP_PENDING_BYTES / 2] = '\0';
    connection_rig_request(&rig, CLOSING);
    http_reply_whole(rig.exchange, 200, NULL, big, sizeof big);
    assert_true(rig.unsent_bytes > 0);
    for (int i = 0; i < 4; i++)
        connection_rig_send(&rig, big);
    assert_non_null(rig.connection);
    (void)connection_rig_receive(&rig);
    assert_true(rig.at_end);
    for (int i = 0; i < 4; i++)
        connection_rig_send(&rig, big);
    assert_non_null(rig.connection);
    assert_true(rig.complete);
    client_leave();
    assert_null(rig.connection);
}

/* The reply's two parts, when the kernel takes all, a part, or nothing of them. */
static void unsent_bytes_follow_in_order(void **state)
{
    (void)state;
    connection_rig_request(&rig, GET);
    http_reply_begin(rig.exchange, 200, NULL, "", NULL, 0);
    (void)connection_rig_receive(&rig);
    rig.exchange->chunked = false;
    http_reply_send(rig.exchange, big, sizeof big); /* a part */
    http_reply_send(rig.exchange, "+first", 6);     /* kept behind it */
    assert_string_equal(connection_rig_receive(&rig) + sizeof big, "+first");
    assert_memory_equal(rig.output.bytes, big, sizeof big);
    size_t filled = socket_fill();
    http_reply_send(rig.exchange, "+second", 7); /* nothing */
    assert_int_equal(rig.unsent_bytes, 7);
    assert_string_equal(connection_rig_receive(&rig) + filled, "+second");
    assert_int_equal(rig.unsent_bytes, 0);
    /* One unsent byte is sent too. */
    filled = socket_fill();
    http_reply_send(rig.exchange, "!", 1);
    assert_int_equal(rig.unsent_bytes, 1);
    struct iovec parts[2] = {{.iov_base = NULL, .iov_len = 0}, {.iov_base = big, .iov_len = 3}};
    http_connection_write(rig.connection, parts, 2);
    assert_int_equal(rig.unsent_bytes, 4);
    assert_string_equal(connection_rig_receive(&rig) + filled, "!abc");
}

/* It is sent without a further write. */
static void one_unsent_byte_is_sent_alone(void **state)
{
    (void)state;
    connection_rig_request(&rig, GET);
    http_reply_begin(rig.exchange, 200, NULL, "", NULL, 0);
    (void)connection_rig_receive(&rig);
    rig.exchange->chunked = false;
    size_t filled = socket_fill();
    http_reply_send(rig.exchange, "!", 1);
    assert_int_equal(rig.unsent_bytes, 1);
    assert_string_equal(connection_rig_receive(&rig) + filled, "!");
    assert_int_equal(rig.unsent_bytes, 0);
}

static void a_write_to_a_client_that_left_breaks_the_connection(void **state)
{
    (void)state;
    connection_rig_request(&rig, GET);
    close(rig.client);
    rig.client = -1;
    http_reply_begin(rig.exchange, 200, NULL, "", "a", 1);
    assert_non_null(rig.connection); /* the handler may go on */
    http_reply_send(rig.exchange, "b", 1);
    assert_int_equal(rig.unsent_bytes, 0);
    connection_rig_turn(&rig);
    assert_null(rig.connection);
    assert_int_equal(rig.gone_count, 1);
    assert_int_equal(rig.over_count, 1);
    assert_false(rig.complete);
}

/* Complete for the handler, so its callback does not run; incomplete in the log. */
static void a_client_that_leaves_before_it_read_the_reply(void **state)
{
    (void)state;
    connection_rig_request(&rig, GET);
    http_reply_whole(rig.exchange, 200, NULL, big, sizeof big);
    assert_true(rig.unsent_bytes > 0);
    client_leave();
    assert_null(rig.connection);
    assert_int_equal(rig.gone_count, 0);
    assert_int_equal(rig.over_count, 1);
    assert_false(rig.complete);
    assert_int_equal(rig.unsent_bytes, 0);
}

static void a_broken_connection_does_not_finish_its_reply(void **state)
{
    (void)state;
    connection_rig_request(&rig, GET);
    http_connection_break(rig.connection);
    reply("x");
    assert_int_equal(rig.over_count, 0);
    assert_string_equal(connection_rig_receive(&rig), "");
    assert_null(rig.connection);
    assert_int_equal(rig.over_count, 1);
    assert_false(rig.complete);
}

/* --- TLS ------------------------------------------------------------------------------------- */

static struct tls_files files;
static struct tls_context *tls;
static SSL *client;

static int tls_setup(void **state)
{
    struct error_text error;
    setup(state);
    connection_rig_fini(&rig);
    connection_rig_init(&rig);
    tls_files_create(&files, NULL);
    assert_int_equal(tls_context_create(files.cert, files.key, &tls, &error), RESULT_OK);
    rig.config.handshake_timeout_ms = 30000000;
    rig.config.idle_timeout_ms = IDLE_MS;
    server_fd = connection_rig_pair(&rig);
    connection_rig_open(&rig, server_fd, tls_context_accept(tls, server_fd));
    client = tls_client_open(rig.client);
    return 0;
}

static int tls_teardown(void **state)
{
    SSL_free(client);
    teardown(state);
    tls_context_destroy(tls);
    tls_files_destroy(&files);
    return 0;
}

static void tls_handshake(void)
{
    for (int i = 0; i < 20 && SSL_do_handshake(client) != 1; i++)
        connection_rig_turn(&rig);
    connection_rig_turn(&rig);
    assert_true(SSL_is_init_finished(client));
}

static void tls_request(const char *text)
{
    size_t written;
    assert_int_equal(SSL_write_ex(client, text, strlen(text), &written), 1);
    connection_rig_turn(&rig);
    assert_non_null(rig.exchange);
}

/* Reads up to `bytes`; returns how many there were. */
static size_t tls_receive(char *text, size_t bytes)
{
    size_t count = 0;
    for (int quiet = 0; quiet < 3 && count < bytes;) {
        size_t piece = 0;
        quiet = SSL_read_ex(client, text + count, bytes - count, &piece) == 1 ? 0 : quiet + 1;
        count += piece;
        connection_rig_turn(&rig);
    }
    return count;
}

static void a_handshake_comes_before_requests(void **state)
{
    (void)state;
    static char text[sizeof big + 1000];
    assert_true(http_connection_is_idle(rig.connection));
    assert_timer(30000000);
    assert_int_equal(SSL_do_handshake(client), -1);
    connection_rig_turn(&rig);
    assert_timer(30000000);
    tls_handshake();
    assert_timer(IDLE_MS);
    assert_true(http_connection_is_idle(rig.connection));
    for (int i = 0; i < 2; i++) {
        tls_request(i == 0 ? GET : CLOSING);
        http_reply_whole(rig.exchange, 200, NULL, big, sizeof big);
        assert_int_equal(rig.over_count, i);
        size_t count = tls_receive(text, sizeof text);
        assert_true(count > sizeof big);
        assert_memory_equal(text + count - sizeof big, big, sizeof big);
        assert_int_equal(rig.over_count, i + 1);
        assert_int_equal(rig.unsent_bytes, 0);
    }
    assert_int_equal(SSL_get_shutdown(client), SSL_RECEIVED_SHUTDOWN);
    assert_int_equal(rig.counters.handshakes_failed, 0);
}

static void a_small_reply_over_tls_is_sent_at_once(void **state)
{
    (void)state;
    char text[2000];
    tls_handshake();
    tls_request(GET);
    reply("small");
    assert_int_equal(rig.unsent_bytes, 0);
    size_t count = tls_receive(text, sizeof text);
    assert_memory_equal(text + count - 5, "small", 5);
}

/* A call writes at most 16 records of 16,384 bytes: the first two calls leave one byte. */
static void the_last_byte_over_tls_is_sent(void **state)
{
    (void)state;
    static char text[2 * 16 * 16384 + 1];
    int buffer_bytes = 1 << 20;
    assert_int_equal(
        setsockopt(server_fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes), 0);
    tls_handshake();
    tls_request(GET);
    http_reply_begin(rig.exchange, 200, NULL, "", NULL, 0);
    (void)tls_receive(text, sizeof text);
    rig.exchange->chunked = false;
    http_reply_send(rig.exchange, big, sizeof text);
    http_reply_end(rig.exchange, NULL, 0);
    size_t count = 0, piece = 0;
    while (SSL_read_ex(client, text + count, sizeof text - count, &piece) == 1)
        count += piece; /* what the first call wrote */
    connection_rig_turn(&rig);
    count += tls_receive(text + count, sizeof text - count);
    assert_int_equal(count, sizeof text);
    assert_memory_equal(text, big, sizeof text);
    assert_int_equal(rig.unsent_bytes, 0);
    assert_true(rig.complete);
}

/* A record that the socket takes in part is not sent yet, so the timer goes on. */
static void a_part_of_a_record_does_not_restart_the_timer(void **state)
{
    (void)state;
    static char bytes[65536];
    int buffer_bytes = 1; /* the system's minimum */
    rig.config.write_timeout_ms = WRITE_MS;
    tls_handshake();
    assert_int_equal(
        setsockopt(server_fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes), 0);
    tls_request(GET);
    http_reply_whole(rig.exchange, 200, NULL, big, sizeof big);
    assert_timer(WRITE_MS);
    uint64_t unsent_bytes = rig.unsent_bytes;
    usleep(50000);
    int64_t before_ms = timer_ms();
    assert_true(recv(rig.client, bytes, sizeof bytes, 0) > 0);
    connection_rig_turn(&rig);
    assert_true(recv(rig.client, bytes, sizeof bytes, MSG_PEEK) > 0); /* more of the record */
    assert_int_equal(rig.unsent_bytes, unsent_bytes);
    assert_true(timer_ms() <= before_ms);
    for (int i = 0; i < 100 && rig.unsent_bytes == unsent_bytes; i++) {
        assert_true(recv(rig.client, bytes, sizeof bytes, 0) > 0);
        connection_rig_turn(&rig);
    }
    assert_true(rig.unsent_bytes < unsent_bytes);
    assert_true(timer_ms() > before_ms + 20);
}

/* Without memory for what the socket does not take, the client must not get a reply with a gap. */
static void bytes_without_memory_break_the_connection(void **state)
{
    (void)state;
    const size_t large_bytes = 64 << 20;
    if (SANITIZED)
        skip();
    void *large = mmap(NULL, large_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(large, MAP_FAILED);
    tls_handshake();
    tls_request(GET);
    http_reply_begin(rig.exchange, 200, NULL, "", NULL, 0);
    no_memory_begin(1 << 20);
    http_reply_send(rig.exchange, large, large_bytes);
    no_memory_end();
    connection_rig_turn(&rig);
    assert_null(rig.connection);
    assert_int_equal(rig.gone_count, 1);
    assert_false(rig.complete);
    munmap(large, large_bytes);
}

static void a_failed_handshake_is_counted(void **state)
{
    (void)state;
    connection_rig_send(&rig, GET);
    assert_null(rig.connection);
    assert_int_equal(rig.counters.handshakes_failed, 1);
    assert_int_equal(rig.counters.requests, 0);
}

static void a_slow_handshake_is_counted(void **state)
{
    (void)state;
    connection_rig_fini(&rig);
    connection_rig_init(&rig);
    rig.config.handshake_timeout_ms = 20;
    server_fd = connection_rig_pair(&rig);
    connection_rig_open(&rig, server_fd, tls_context_accept(tls, server_fd));
    expect_closed_after_timer();
    assert_int_equal(rig.counters.handshakes_failed, 1);
}

#define TEST(name)     cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TLS_TEST(name) cmocka_unit_test_setup_teardown(name, tls_setup, tls_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_timer_runs_unless_a_request_is_handled),
        TEST(an_unread_reply_has_a_timer_that_progress_restarts),
        TEST(idle_is_between_requests_only),
        TEST(an_idle_connection_is_closed_without_a_reply),
        TEST(a_slow_request_is_refused),
        TEST(a_malformed_request_is_refused_and_the_rest_dropped),
        TEST(a_malformed_body_ends_its_exchange),
        TEST(a_rejected_request_without_body_keeps_the_connection),
        TEST(a_rejected_request_of_a_closing_client_closes),
        TEST(a_continue_is_sent_once_and_exactly),
        TEST(bodies_are_held_until_dispatched),
        TEST(a_body_beyond_what_the_server_holds_is_refused),
        TEST(the_arrival_is_that_of_the_first_byte),
        TEST(bytes_after_a_request_are_kept_up_to_the_limit),
        TEST(bytes_that_cannot_be_kept_close_the_connection),
        TEST(kept_bytes_are_the_next_request),
        TEST(bytes_after_the_last_request_are_dropped),
        TEST(unsent_bytes_follow_in_order),
        TEST(one_unsent_byte_is_sent_alone),
        TEST(a_write_to_a_client_that_left_breaks_the_connection),
        TEST(a_client_that_leaves_before_it_read_the_reply),
        TEST(a_broken_connection_does_not_finish_its_reply),
        TLS_TEST(a_handshake_comes_before_requests),
        TLS_TEST(a_small_reply_over_tls_is_sent_at_once),
        TLS_TEST(the_last_byte_over_tls_is_sent),
        TLS_TEST(a_part_of_a_record_does_not_restart_the_timer),
        TLS_TEST(bytes_without_memory_break_the_connection),
        TLS_TEST(a_failed_handshake_is_counted),
        TLS_TEST(a_slow_handshake_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
