/*
 * Replies byte for byte: status lines, common headers, bodies, chunks, errors, and the count of
 * their bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "frontend/http/http_reply.h"
#include "frontend/http/key_usage.h"
#include "proto/log.h"
#include "tests/support/connection_rig.h"

#define GET      "GET / HTTP/1.1\r\nHost: h\r\nx-request-id: id\r\n\r\n"
#define HEAD     "HEAD / HTTP/1.1\r\nHost: h\r\nx-request-id: id\r\n\r\n"
#define CLOSING  "GET / HTTP/1.1\r\nHost: h\r\nx-request-id: id\r\nConnection: close\r\n\r\n"
#define OLD      "GET / HTTP/1.0\r\nx-request-id: id\r\n\r\n"
#define OLD_KEPT "GET / HTTP/1.0\r\nx-request-id: id\r\nConnection: keep-alive\r\n\r\n"
#define IDS      "x-request-id: id\r\nrequest-id: id\r\n"

static struct connection_rig rig;

static int setup(void **state)
{
    (void)state;
    log_init("test", LOG_ERROR);
    connection_rig_init(&rig);
    connection_rig_open(&rig, connection_rig_pair(&rig), NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    connection_rig_fini(&rig);
    return 0;
}

/* What the client received, without the value of Date. */
static const char *received(void)
{
    (void)connection_rig_receive(&rig);
    char *text = rig.output.bytes;
    assert_int_equal(strlen(text), rig.output.length); /* no NUL among the bytes */
    char *date = strstr(text, "Date: ");
    if (date) {
        char *end = strstr(date, "\r\n");
        assert_non_null(end);
        assert_int_equal(end - date, strlen("Date: Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_memory_equal(end - 4, " GMT", 4);
        memmove(date, end + 2, strlen(end + 2) + 1);
    }
    return text;
}

static void status_lines_name_the_status(void **state)
{
    (void)state;
    static const char *const lines[] = {"200 OK",
                                        "204 No Content",
                                        "304 Not Modified",
                                        "400 Bad Request",
                                        "401 Unauthorized",
                                        "403 Forbidden",
                                        "404 Not Found",
                                        "405 Method Not Allowed",
                                        "408 Request Timeout",
                                        "413 Content Too Large",
                                        "414 URI Too Long",
                                        "415 Unsupported Media Type",
                                        "417 Expectation Failed",
                                        "429 Too Many Requests",
                                        "431 Request Header Fields Too Large",
                                        "500 Internal Server Error",
                                        "501 Not Implemented",
                                        "503 Service Unavailable",
                                        "504 Gateway Timeout",
                                        "505 HTTP Version Not Supported",
                                        "529 Overloaded",
                                        "299 Unknown"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        int status = 0;
        char line[64];
        assert_int_equal(sscanf(lines[i], "%d", &status), 1);
        snprintf(line, sizeof line, "HTTP/1.1 %s\r\n", lines[i]);
        connection_rig_request(&rig, GET);
        http_reply_whole(rig.exchange, status, NULL, "", 0);
        assert_memory_equal(received(), line, strlen(line));
    }
}

static void a_whole_reply_has_its_length(void **state)
{
    (void)state;
    connection_rig_request(&rig, GET);
    http_reply_whole(rig.exchange, 200, "text/plain", "x", 1);
    assert_string_equal(received(), "HTTP/1.1 200 OK\r\n" IDS "Content-Type: text/plain\r\n"
                                    "Content-Length: 1\r\n\r\nx");
    connection_rig_request(&rig, GET);
    http_reply_whole(rig.exchange, 200, NULL, "", 0);
    assert_string_equal(received(), "HTTP/1.1 200 OK\r\n" IDS "Content-Length: 0\r\n\r\n");
    /* 204 and 304 have neither a body nor a length. */
    connection_rig_request(&rig, GET);
    http_reply_whole(rig.exchange, 204, NULL, "", 0);
    assert_string_equal(received(), "HTTP/1.1 204 No Content\r\n" IDS "\r\n");
    connection_rig_request(&rig, GET);
    http_reply_whole(rig.exchange, 304, NULL, "", 0);
    assert_string_equal(received(), "HTTP/1.1 304 Not Modified\r\n" IDS "\r\n");
    assert_int_equal(rig.over_count, 4);
    assert_true(rig.complete);
}

static void a_reply_to_head_has_no_body(void **state)
{
    (void)state;
    connection_rig_request(&rig, HEAD);
    http_reply_whole(rig.exchange, 200, NULL, "body", 4);
    assert_string_equal(received(), "HTTP/1.1 200 OK\r\n" IDS "Content-Length: 4\r\n\r\n");
}

static void the_connection_header_tells_what_the_client_does_not_expect(void **state)
{
    (void)state;
    connection_rig_request(&rig, OLD_KEPT);
    http_reply_whole(rig.exchange, 200, NULL, "", 0);
    assert_string_equal(received(), "HTTP/1.1 200 OK\r\n" IDS "Connection: keep-alive\r\n"
                                    "Content-Length: 0\r\n\r\n");
    assert_false(rig.at_end);
    connection_rig_request(&rig, CLOSING);
    http_reply_whole(rig.exchange, 200, NULL, "", 0);
    assert_string_equal(received(), "HTTP/1.1 200 OK\r\n" IDS "Connection: close\r\n"
                                    "Content-Length: 0\r\n\r\n");
    assert_true(rig.at_end);
}

static void an_old_client_is_told_of_the_end(void **state)
{
    (void)state;
    connection_rig_request(&rig, OLD);
    http_reply_whole(rig.exchange, 200, NULL, "", 0);
    assert_string_equal(received(), "HTTP/1.1 200 OK\r\n" IDS "Connection: close\r\n"
                                    "Content-Length: 0\r\n\r\n");
    assert_true(rig.at_end);
}

static void limited_keys_and_allowed_methods_are_in_the_head(void **state)
{
    (void)state;
    struct key_usage *usage = key_usage_create(4);
    struct client_key key = {.bytes = {1, 2}};
    struct key_limits limits = {.requests = 10};
    uint32_t retry_after_s;
    assert_int_equal(key_usage_begin(usage, &key, &limits, 0, &retry_after_s), KEY_ADMITTED);
    connection_rig_request(&rig, GET);
    rig.exchange->usage = usage;
    rig.exchange->client_key = key;
    rig.exchange->allow = "GET, OPTIONS";
    http_reply_whole(rig.exchange, 200, NULL, "", 0);
    const char *text = received();
    assert_non_null(strstr(text, "\r\nAllow: GET, OPTIONS\r\n"));
    assert_non_null(strstr(text, "\r\nx-ratelimit-limit-requests: 10\r\n"));
    key_usage_destroy(usage);
}

static void errors_have_headers_of_their_status(void **state)
{
    (void)state;
    static const struct {
        int status;
        uint32_t retry_after_s;
        const char *header; /* NULL: none */
    } cases[] = {
        {429, 1, "\r\nRetry-After: 1\r\n"},
        {503, 70, "\r\nRetry-After: 70\r\n"},
        {401, 0, "\r\nWWW-Authenticate: Bearer\r\n"},
        {400, 0, NULL},
        {404, 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct api_error error;
        (void)api_error_set(&error, RESULT_INVALID, cases[i].status, NULL, "why");
        error.retry_after_s = cases[i].retry_after_s;
        connection_rig_request(&rig, GET);
        http_reply_error(rig.exchange, &error);
        const char *text = received();
        assert_non_null(strstr(text, "\r\nContent-Type: application/json\r\n"));
        assert_non_null(strstr(text, "\r\n\r\n{\"error\":{\"message\":\"why\","));
        if (cases[i].header)
            assert_non_null(strstr(text, cases[i].header));
        for (size_t j = 0; j < sizeof cases / sizeof cases[0]; j++)
            assert_true(j == i || !cases[j].header || !strstr(text, cases[j].header));
        assert_null(strstr(text, "Retry-After: 0"));
    }
}

static int write_own(const struct api_error *error, const char *request_id, struct text_buffer *out)
{
    text_buffer_append_format(out, "%s of %s", error->message, request_id);
    return 529;
}

static void a_route_writes_errors_in_its_shape(void **state)
{
    (void)state;
    struct api_error error;
    (void)api_error_set(&error, RESULT_INVALID, 503, NULL, "why");
    connection_rig_request(&rig, GET);
    rig.exchange->write_error = write_own;
    http_reply_error(rig.exchange, &error);
    assert_string_equal(received(),
                        "HTTP/1.1 529 Overloaded\r\n" IDS "Content-Type: application/json\r\n"
                        "Content-Length: 9\r\n\r\nwhy of id");
}

static void json_is_sent_and_freed(void **state)
{
    (void)state;
    struct text_buffer body = {0};
    text_buffer_append_text(&body, "{}");
    connection_rig_request(&rig, GET);
    http_reply_json(rig.exchange, 200, &body);
    assert_null(body.bytes);
    assert_string_equal(received(), "HTTP/1.1 200 OK\r\n" IDS "Content-Type: application/json\r\n"
                                    "Content-Length: 2\r\n\r\n{}");
}

/* The reply cannot be completed, so the client sees a cut connection. */
static void json_without_memory_cuts_the_connection(void **state)
{
    (void)state;
    struct text_buffer body = {.failed = true};
    connection_rig_request(&rig, GET);
    http_reply_json(rig.exchange, 200, &body);
    assert_string_equal(received(), "");
    assert_true(rig.at_end);
    assert_null(rig.connection);
    assert_int_equal(rig.gone_count, 0);
    assert_int_equal(rig.over_count, 1);
    assert_false(rig.complete);
}

#define CHUNKED                                                                                    \
    "HTTP/1.1 200 OK\r\n" IDS "Content-Type: text/plain\r\nX-A: b\r\n"                             \
    "Transfer-Encoding: chunked\r\n\r\n"

/* The first bytes come with the head, the last ones with the end. */
static void parts_are_chunks(void **state)
{
    (void)state;
    connection_rig_request(&rig, GET);
    http_reply_begin(rig.exchange, 200, "text/plain", "X-A: b\r\n", "a", 1);
    assert_true(rig.exchange->begun);
    assert_string_equal(received(), CHUNKED "1\r\na\r\n");
    http_reply_send(rig.exchange, "sixteen bytes...", 16);
    assert_string_equal(received(), "10\r\nsixteen bytes...\r\n");
    http_reply_send(rig.exchange, "", 0); /* an empty chunk would end the reply */
    assert_string_equal(received(), "");
    http_reply_end(rig.exchange, "z", 1);
    assert_string_equal(received(), "1\r\nz\r\n0\r\n\r\n");
    assert_false(rig.at_end);
    assert_true(rig.complete);
    assert_int_equal(rig.over_count, 1);
}

/* Chunks of less and of more than the bytes that are joined before they are written. */
static void large_parts_are_chunks(void **state)
{
    (void)state;
    static char bytes[3000];
    char expected[sizeof bytes + 32];
    memset(bytes, 'b', sizeof bytes);
    connection_rig_request(&rig, GET);
    http_reply_begin(rig.exchange, 200, "text/plain", "X-A: b\r\n", NULL, 0);
    assert_string_equal(received(), CHUNKED);
    for (size_t count = 2030; count <= 2060; count++) {
        snprintf(expected, sizeof expected, "%zx\r\n%.*s\r\n", count, (int)count, bytes);
        http_reply_send(rig.exchange, bytes, count);
        assert_string_equal(received(), expected);
    }
    http_reply_end(rig.exchange, NULL, 0);
}

static void first_and_last_part_may_be_empty(void **state)
{
    (void)state;
    connection_rig_request(&rig, GET);
    http_reply_begin(rig.exchange, 200, "text/plain", "X-A: b\r\n", NULL, 0);
    assert_string_equal(received(), CHUNKED);
    http_reply_end(rig.exchange, NULL, 0);
    assert_string_equal(received(), "0\r\n\r\n");
}

static void an_old_client_gets_parts_without_chunks(void **state)
{
    (void)state;
    connection_rig_request(&rig, OLD_KEPT);
    http_reply_begin(rig.exchange, 200, "text/plain", "", "a", 1);
    assert_string_equal(received(), "HTTP/1.1 200 OK\r\n" IDS "Content-Type: text/plain\r\n"
                                    "Connection: close\r\n\r\na");
    http_reply_send(rig.exchange, "bc", 2);
    assert_string_equal(received(), "bc");
    http_reply_end(rig.exchange, "d", 1);
    assert_string_equal(received(), "d");
    assert_true(rig.at_end);
    assert_true(rig.complete);
}

static void an_abort_leaves_the_reply_incomplete(void **state)
{
    (void)state;
    connection_rig_request(&rig, GET);
    http_reply_begin(rig.exchange, 200, "text/plain", "X-A: b\r\n", "a", 1);
    http_reply_abort(rig.exchange);
    assert_string_equal(received(), CHUNKED "1\r\na\r\n");
    assert_true(rig.at_end);
    assert_null(rig.connection);
    assert_int_equal(rig.gone_count, 0);
    assert_false(rig.complete);
}

static void reply_bytes_count_the_whole_reply(void **state)
{
    (void)state;
    connection_rig_request(&rig, GET);
    assert_int_equal(rig.exchange->status, 0);
    http_reply_begin(rig.exchange, 200, "text/plain", "", "a", 1);
    assert_int_equal(rig.exchange->status, 200);
    uint64_t bytes = strlen(connection_rig_receive(&rig));
    assert_int_equal(rig.exchange->reply_bytes, bytes);
    http_reply_send(rig.exchange, "bcd", 3);
    assert_int_equal(rig.exchange->reply_bytes, bytes + 8); /* 3\r\nbcd\r\n */
}

/* A client that does not read, beyond what the kernel takes. */
static void unsent_bytes_are_counted_and_crowd(void **state)
{
    (void)state;
    static char event[100000];
    memset(event, 'e', sizeof event);
    connection_rig_request(&rig, GET);
    http_reply_begin(rig.exchange, 200, "text/plain", "", NULL, 0);
    assert_int_equal(http_reply_unsent_bytes(rig.exchange), 0);
    while (http_reply_unsent_bytes(rig.exchange) == 0)
        http_reply_send(rig.exchange, event, sizeof event);
    size_t unsent = http_reply_unsent_bytes(rig.exchange);
    assert_int_equal(rig.unsent_bytes, unsent);
    rig.config.max_unsent_bytes = unsent;
    assert_false(http_reply_is_crowding(rig.exchange));
    rig.config.max_unsent_bytes = unsent - 1;
    assert_true(http_reply_is_crowding(rig.exchange));
    (void)connection_rig_receive(&rig);
    assert_int_equal(http_reply_unsent_bytes(rig.exchange), 0);
    rig.unsent_bytes += unsent; /* of another reader */
    assert_false(http_reply_is_crowding(rig.exchange));
    rig.unsent_bytes -= unsent;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(status_lines_name_the_status),
        TEST(a_whole_reply_has_its_length),
        TEST(a_reply_to_head_has_no_body),
        TEST(the_connection_header_tells_what_the_client_does_not_expect),
        TEST(an_old_client_is_told_of_the_end),
        TEST(limited_keys_and_allowed_methods_are_in_the_head),
        TEST(errors_have_headers_of_their_status),
        TEST(a_route_writes_errors_in_its_shape),
        TEST(json_is_sent_and_freed),
        TEST(json_without_memory_cuts_the_connection),
        TEST(parts_are_chunks),
        TEST(large_parts_are_chunks),
        TEST(first_and_last_part_may_be_empty),
        TEST(an_old_client_gets_parts_without_chunks),
        TEST(an_abort_leaves_the_reply_incomplete),
        TEST(reply_bytes_count_the_whole_reply),
        TEST(unsent_bytes_are_counted_and_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
