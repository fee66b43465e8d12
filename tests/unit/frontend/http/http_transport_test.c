/*
 * Reading and writing a socket pair, plain and through TLS: bytes, an end, an error, and a socket
 * that takes no more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/util.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "frontend/http/http_transport.h"
#include "frontend/http/tls_context.h"
#include "tests/support/tls_peer.h"

#define RECORD_BYTES  16384 /* maximum of TLS */
#define FLUSH_RECORDS 16    /* of one http_transport_flush() */

static struct http_transport transport;
static int peer;
static struct evbuffer *unsent;
static char bytes[1 << 20];

static struct tls_files files;
static struct tls_context *tls;
static SSL *client; /* over `peer` */

static void open_pair(bool secure)
{
    int fds[2];
    signal(SIGPIPE, SIG_IGN); /* as the frontend does */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(evutil_make_socket_nonblocking(fds[i]), 0);
    peer = fds[1];
    unsent = evbuffer_new();
    http_transport_init(&transport, fds[0], secure ? tls_context_accept(tls, fds[0]) : NULL);
    client = secure ? tls_client_open(peer) : NULL;
}

static void close_pair(void)
{
    http_transport_fini(&transport);
    assert_true(fcntl(transport.fd, F_GETFD) < 0);
    SSL_free(client);
    client = NULL;
    if (peer >= 0)
        close(peer);
    evbuffer_free(unsent);
}

static void peer_close(void)
{
    close(peer);
    peer = -1;
}

static int setup(void **state)
{
    (void)state;
    open_pair(false);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_pair();
    return 0;
}

static ssize_t write_bytes(size_t count)
{
    struct iovec part = {.iov_base = bytes, .iov_len = count};
    return http_transport_write(&transport, &part, 1);
}

/* Writes past TLS until the socket takes no more. */
static size_t socket_fill(void)
{
    size_t filled = 0;
    for (size_t piece = 4096; piece > 0; piece /= 2) {
        ssize_t count;
        while ((count = send(transport.fd, bytes, piece, MSG_DONTWAIT)) > 0)
            filled += (size_t)count;
    }
    return filled;
}

static void peer_drop(size_t count)
{
    while (count > 0) {
        ssize_t taken = recv(peer, bytes, count, 0);
        assert_true(taken > 0);
        count -= (size_t)taken;
    }
}

/* --- plain ----------------------------------------------------------------------------------- */

static void plain_bytes_are_read(void **state)
{
    (void)state;
    char text[8];
    assert_false(transport.handshaking);
    assert_int_equal(http_transport_read(&transport, text, sizeof text), -1);
    assert_int_equal(send(peer, "abc", 3, 0), 3);
    assert_int_equal(http_transport_read(&transport, text, 2), 2);
    assert_memory_equal(text, "ab", 2);
    assert_false(http_transport_has_more(&transport)); /* the socket announces them */
    assert_int_equal(http_transport_read(&transport, text, sizeof text), 1);
    peer_close();
    errno = EAGAIN; /* of an earlier call */
    assert_int_equal(http_transport_read(&transport, text, sizeof text), 0);
}

static void a_reset_is_an_end(void **state)
{
    (void)state;
    char text[8];
    assert_int_equal(write_bytes(3), 3); /* not read by the peer */
    peer_close();
    assert_int_equal(http_transport_read(&transport, text, sizeof text), 0);
}

static void plain_parts_are_written(void **state)
{
    (void)state;
    char text[8] = {0};
    struct iovec parts[2] = {{.iov_base = "ab", .iov_len = 2}, {.iov_base = "c", .iov_len = 1}};
    assert_int_equal(http_transport_write(&transport, parts, 2), 3);
    assert_int_equal(recv(peer, text, sizeof text, 0), 3);
    assert_string_equal(text, "abc");
    errno = EPIPE; /* of an earlier call */
    assert_int_equal(write_bytes(0), 0);
    assert_in_range(write_bytes(sizeof bytes), 1, sizeof bytes - 1); /* a part */
    (void)socket_fill();
    assert_int_equal(write_bytes(1), 0);
    peer_close();
    assert_int_equal(write_bytes(1), -1);
}

static void unsent_bytes_leave_the_buffer(void **state)
{
    (void)state;
    evbuffer_add(unsent, bytes, sizeof bytes);
    errno = EPIPE; /* of an earlier call */
    assert_int_equal(http_transport_flush(&transport, unsent), RESULT_OK);
    size_t left = evbuffer_get_length(unsent);
    assert_in_range(left, 1, sizeof bytes - 1);
    (void)socket_fill();
    assert_int_equal(http_transport_flush(&transport, unsent), RESULT_OK);
    assert_int_equal(evbuffer_get_length(unsent), left);
    peer_close();
    assert_int_equal(http_transport_flush(&transport, unsent), RESULT_IO);
}

static void a_plain_end_is_an_end_of_file(void **state)
{
    (void)state;
    char text[8];
    assert_int_equal(http_transport_shutdown(&transport), RESULT_OK);
    assert_int_equal(recv(peer, text, sizeof text, 0), 0);
    assert_int_equal(send(peer, "a", 1, 0), 1); /* the other direction stays open */
    assert_int_equal(http_transport_read(&transport, text, sizeof text), 1);
}

/* --- TLS ------------------------------------------------------------------------------------- */

static int tls_group_setup(void **state)
{
    (void)state;
    struct error_text error;
    tls_files_create(&files, NULL);
    assert_int_equal(tls_context_create(files.cert, files.key, &tls, &error), RESULT_OK);
    return 0;
}

static int tls_group_teardown(void **state)
{
    (void)state;
    tls_context_destroy(tls);
    tls_files_destroy(&files);
    return 0;
}

static int tls_setup(void **state)
{
    (void)state;
    open_pair(true);
    return 0;
}

static void handshake(void)
{
    enum result result = RESULT_EMPTY;
    for (int i = 0; i < 10 && result == RESULT_EMPTY; i++) {
        (void)SSL_do_handshake(client);
        assert_true(transport.handshaking);
        result = http_transport_handshake(&transport);
        assert_false(transport.read_needs_writable);
    }
    assert_int_equal(result, RESULT_OK);
    assert_false(transport.handshaking);
    assert_int_equal(SSL_do_handshake(client), 1);
    char text[1];
    assert_int_equal(SSL_read(client, text, 1), -1); /* takes the session tickets */
}

static void peer_write(const void *text, size_t count)
{
    size_t written;
    assert_int_equal(SSL_write_ex(client, text, count, &written), 1);
    assert_int_equal(written, count);
}

static void a_handshake_waits_for_the_client(void **state)
{
    (void)state;
    assert_true(transport.handshaking);
    assert_int_equal(http_transport_handshake(&transport), RESULT_EMPTY);
    assert_false(transport.read_needs_writable);
    handshake();
}

static void a_handshake_waits_for_room(void **state)
{
    (void)state;
    (void)SSL_do_handshake(client);
    size_t filled = socket_fill();
    assert_int_equal(http_transport_handshake(&transport), RESULT_EMPTY);
    assert_true(transport.read_needs_writable);
    peer_drop(filled);
    handshake();
}

static void bytes_that_are_no_handshake_are_corrupt(void **state)
{
    (void)state;
    static const char request[] = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    assert_int_equal(send(peer, request, strlen(request), 0), (ssize_t)strlen(request));
    assert_int_equal(http_transport_handshake(&transport), RESULT_CORRUPT);
    assert_false(transport.read_needs_writable);
}

static void records_are_read_in_pieces(void **state)
{
    (void)state;
    char text[8];
    handshake();
    assert_int_equal(http_transport_read(&transport, text, sizeof text), -1);
    assert_false(transport.read_needs_writable);
    assert_false(http_transport_has_more(&transport));
    peer_write("abc", 3);
    transport.read_needs_writable = true;
    assert_int_equal(http_transport_read(&transport, text, 2), 2);
    assert_false(transport.read_needs_writable);
    assert_memory_equal(text, "ab", 2);
    assert_true(http_transport_has_more(&transport)); /* one byte */
    assert_int_equal(http_transport_read(&transport, text, sizeof text), 1);
    assert_int_equal(text[0], 'c');
    assert_false(http_transport_has_more(&transport));
    assert_int_equal(SSL_shutdown(client), 0);
    assert_int_equal(http_transport_read(&transport, text, sizeof text), 0);
}

static void a_broken_record_is_an_end(void **state)
{
    (void)state;
    char text[8];
    handshake();
    assert_int_equal(send(peer, "no record of TLS", 16, 0), 16);
    assert_int_equal(http_transport_read(&transport, text, sizeof text), 0);
}

static void an_end_without_notice_is_an_end(void **state)
{
    (void)state;
    char text[8];
    handshake();
    peer_close();
    assert_int_equal(http_transport_read(&transport, text, sizeof text), 0);
}

static void one_byte_is_written_by_flushing(void **state)
{
    (void)state;
    char text[8];
    handshake();
    assert_int_equal(write_bytes(1), 0); /* the caller puts it into the buffer */
    evbuffer_add(unsent, "x", 1);
    transport.write_needs_readable = true;
    assert_int_equal(http_transport_flush(&transport, unsent), RESULT_OK);
    assert_false(transport.write_needs_readable);
    assert_int_equal(evbuffer_get_length(unsent), 0);
    assert_int_equal(http_transport_flush(&transport, unsent), RESULT_OK); /* nothing */
    assert_int_equal(SSL_read(client, text, sizeof text), 1);
    assert_int_equal(text[0], 'x');
    assert_int_equal(SSL_read(client, text, sizeof text), -1);
}

static void a_flush_writes_a_limited_number_of_records(void **state)
{
    (void)state;
    int room = sizeof bytes;
    handshake();
    setsockopt(transport.fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    evbuffer_add(unsent, bytes, (FLUSH_RECORDS + 2) * RECORD_BYTES);
    assert_int_equal(http_transport_flush(&transport, unsent), RESULT_OK);
    assert_int_equal(evbuffer_get_length(unsent), 2 * RECORD_BYTES);
}

/* A record that is taken in part is continued. */
static void a_full_socket_keeps_the_rest(void **state)
{
    (void)state;
    handshake();
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)('a' + i % 23);
    evbuffer_add(unsent, bytes, sizeof bytes);
    size_t received = 0;
    bool was_full = false;
    for (int i = 0; i < 1000 && received < sizeof bytes; i++) {
        size_t before = evbuffer_get_length(unsent);
        assert_int_equal(http_transport_flush(&transport, unsent), RESULT_OK);
        assert_false(transport.write_needs_readable);
        was_full |= before - evbuffer_get_length(unsent) < FLUSH_RECORDS * RECORD_BYTES;
        char piece[30000];
        size_t count = 0;
        if (SSL_read_ex(client, piece, sizeof piece, &count) == 1)
            assert_memory_equal(piece, bytes + received, count);
        received += count;
    }
    assert_true(was_full);
    assert_int_equal(received, sizeof bytes);
    assert_int_equal(evbuffer_get_length(unsent), 0);
}

static void a_flush_to_a_client_that_left_fails(void **state)
{
    (void)state;
    handshake();
    peer_close();
    evbuffer_add(unsent, "x", 1);
    assert_int_equal(http_transport_flush(&transport, unsent), RESULT_IO);
    assert_int_equal(http_transport_shutdown(&transport), RESULT_OK);
}

static void an_end_is_a_notice_and_an_end_of_file(void **state)
{
    (void)state;
    char text[8];
    handshake();
    assert_int_equal(http_transport_shutdown(&transport), RESULT_OK);
    assert_int_equal(SSL_get_error(client, SSL_read(client, text, sizeof text)),
                     SSL_ERROR_ZERO_RETURN);
    assert_int_equal(recv(peer, text, sizeof text, 0), 0);
}

static void an_end_waits_for_room(void **state)
{
    (void)state;
    char text[8];
    handshake();
    size_t filled = socket_fill();
    assert_int_equal(http_transport_shutdown(&transport), RESULT_EMPTY);
    peer_drop(filled);
    assert_int_equal(http_transport_shutdown(&transport), RESULT_OK);
    assert_int_equal(SSL_get_error(client, SSL_read(client, text, sizeof text)),
                     SSL_ERROR_ZERO_RETURN);
}

static void an_end_in_the_handshake_is_an_end_of_file_alone(void **state)
{
    (void)state;
    char text[8];
    assert_int_equal(http_transport_shutdown(&transport), RESULT_OK);
    assert_int_equal(recv(peer, text, sizeof text, 0), 0);
}

static void an_end_without_room_shuts_down_nothing_yet(void **state)
{
    (void)state;
    handshake();
    (void)socket_fill();
    assert_int_equal(http_transport_shutdown(&transport), RESULT_EMPTY);
    peer_close();
    assert_int_equal(http_transport_shutdown(&transport), RESULT_OK);
}

#define TEST(name)     cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TLS_TEST(name) cmocka_unit_test_setup_teardown(name, tls_setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(plain_bytes_are_read),
        TEST(a_reset_is_an_end),
        TEST(plain_parts_are_written),
        TEST(unsent_bytes_leave_the_buffer),
        TEST(a_plain_end_is_an_end_of_file),
        TLS_TEST(a_handshake_waits_for_the_client),
        TLS_TEST(a_handshake_waits_for_room),
        TLS_TEST(bytes_that_are_no_handshake_are_corrupt),
        TLS_TEST(records_are_read_in_pieces),
        TLS_TEST(a_broken_record_is_an_end),
        TLS_TEST(an_end_without_notice_is_an_end),
        TLS_TEST(one_byte_is_written_by_flushing),
        TLS_TEST(a_flush_writes_a_limited_number_of_records),
        TLS_TEST(a_full_socket_keeps_the_rest),
        TLS_TEST(a_flush_to_a_client_that_left_fails),
        TLS_TEST(an_end_is_a_notice_and_an_end_of_file),
        TLS_TEST(an_end_waits_for_room),
        TLS_TEST(an_end_in_the_handshake_is_an_end_of_file_alone),
        TLS_TEST(an_end_without_room_shuts_down_nothing_yet),
    };
    return cmocka_run_group_tests(tests, tls_group_setup, tls_group_teardown);
}
