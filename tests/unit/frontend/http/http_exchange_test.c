/*
 * Request ids, notes, and the log line of a request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/http/http_exchange.h"

static struct http_parser request;
static struct http_exchange exchange;
static const struct client_address client; /* of a Unix socket */

/* An exchange of a request with these header lines. */
static void begin(const char *headers)
{
    char text[1024];
    snprintf(text, sizeof text, "POST /path HTTP/1.1\r\nHost: h\r\n%sContent-Length: 2\r\n\r\nhi",
             headers);
    http_parser_begin(&request, 1024, 1024);
    size_t taken = http_parser_feed(&request, text, strlen(text));
    (void)http_parser_feed(&request, text + taken, strlen(text) - taken);
    assert_int_equal(request.state, HTTP_PARSER_DONE);
    http_exchange_init(&exchange, NULL, &client, &request, monotonic_clock_us());
}

static int teardown(void **state)
{
    (void)state;
    http_parser_fini(&request);
    return 0;
}

static void begin_with_id(const char *id)
{
    char header[512];
    snprintf(header, sizeof header, "x-request-id: %s\r\n", id);
    begin(header);
}

static void assert_own_id(void)
{
    assert_int_equal(strlen(exchange.request_id), 20);
    assert_memory_equal(exchange.request_id, "req-", 4);
    assert_int_equal(strspn(exchange.request_id + 4, "0123456789abcdef"), 16);
}

static void an_id_of_visible_characters_is_kept(void **state)
{
    (void)state;
    char longest[LIMIT_HTTP_REQUEST_ID_BYTES + 2];
    memset(longest, 'i', sizeof longest);
    longest[LIMIT_HTTP_REQUEST_ID_BYTES] = '\0';
    const char *const ids[] = {"x", "!", "~", "a!~b", longest};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        begin_with_id(ids[i]);
        assert_string_equal(exchange.request_id, ids[i]);
    }
}

static void another_id_is_replaced(void **state)
{
    (void)state;
    char too_long[LIMIT_HTTP_REQUEST_ID_BYTES + 2];
    memset(too_long, 'i', sizeof too_long);
    too_long[LIMIT_HTTP_REQUEST_ID_BYTES + 1] = '\0';
    const char *const ids[] = {"", "a b", "a\tb", "\xc3\xa9", "a\x80", "a\xff", too_long};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        begin_with_id(ids[i]);
        assert_own_id();
    }
    begin("");
    assert_own_id();
    char first[sizeof exchange.request_id];
    memcpy(first, exchange.request_id, sizeof first);
    begin("");
    assert_string_not_equal(exchange.request_id, first);
    /* The parser lets no delete character through. */
    request.headers[request.header_count++] =
        (struct http_header){.name = "x-request-id", .value = "a\x7f"};
    http_exchange_init(&exchange, NULL, &client, &request, 0);
    assert_own_id();
}

static void the_body_moves_out_once(void **state)
{
    (void)state;
    size_t bytes;
    begin("");
    char *body = http_exchange_take_body(&exchange, &bytes);
    assert_int_equal(bytes, 2);
    assert_string_equal(body, "hi");
    free(body);
    assert_null(http_exchange_take_body(&exchange, &bytes));
    assert_int_equal(bytes, 0);
}

static void a_note_replaces_the_one_of_its_name(void **state)
{
    (void)state;
    begin("");
    http_exchange_note(&exchange, LOG_WHOLE("a", 1));
    http_exchange_note(&exchange, LOG_WHOLE("b", 2));
    http_exchange_note(&exchange, LOG_WHOLE("a", 3));
    assert_int_equal(exchange.note_count, 2);
    assert_string_equal(exchange.notes[0].name, "a");
    assert_int_equal(exchange.notes[0].whole, 3);
    assert_int_equal(exchange.notes[1].whole, 2);
}

static void notes_have_a_maximum(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    _Static_assert(sizeof names / sizeof names[0] == LIMIT_HTTP_NOTES, "one name each");
    begin("");
    for (uint32_t i = 0; i < LIMIT_HTTP_NOTES; i++)
        http_exchange_note(&exchange, LOG_WHOLE(names[i], i));
    http_exchange_note(&exchange, LOG_WHOLE("more", 9));
    assert_int_equal(exchange.note_count, LIMIT_HTTP_NOTES);
    http_exchange_note(&exchange, LOG_WHOLE("h", 70)); /* the last place can be replaced */
    assert_int_equal(exchange.note_count, LIMIT_HTTP_NOTES);
    for (uint32_t i = 0; i < LIMIT_HTTP_NOTES; i++)
        assert_int_equal(exchange.notes[i].whole, i == 7 ? 70 : i);
}

/* The line that is written to standard error, in `line`. */
static void log_line(char *line, size_t bytes)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    http_exchange_log(&exchange);
    fflush(stderr);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    rewind(file);
    size_t count = fread(line, 1, bytes - 1, file);
    line[count] = '\0';
    fclose(file);
}

static double duration_in(const char *line)
{
    const char *at = strstr(line, " duration_ms=");
    assert_non_null(at);
    return strtod(at + strlen(" duration_ms="), NULL);
}

static void the_log_line_tells_the_reply(void **state)
{
    (void)state;
    char line[1024];
    begin_with_id("mine");
    exchange.status = 200;
    exchange.reply_bytes = 1234;
    exchange.complete = true;
    http_exchange_note(&exchange, LOG_TEXT("model", "m"));
    http_exchange_note(&exchange, LOG_WHOLE("tokens", 7));
    log_line(line, sizeof line);
    assert_non_null(strstr(line, "request request_id=mine client=local method=POST path=/path "
                                 "status=200 duration_ms="));
    assert_non_null(strstr(line, " reply_bytes=1234 model=m tokens=7\n"));
    assert_null(strstr(line, "cut="));
}

static void the_log_line_tells_that_the_client_left(void **state)
{
    (void)state;
    char line[1024];
    begin("");
    log_line(line, sizeof line);
    assert_non_null(strstr(line, " status=499 "));
    assert_non_null(strstr(line, " reply_bytes=0 cut=yes\n"));
}

/* A request of ten million seconds ago: the tenth of a per cent of it is longer than any test. */
static void the_duration_is_in_milliseconds(void **state)
{
    (void)state;
    char line[1024];
    int64_t ago_us = (int64_t)10000000 * 1000000;
    begin("");
    int64_t before_us = monotonic_clock_us();
    exchange.arrived_us = before_us - ago_us;
    log_line(line, sizeof line);
    double latest_ms = (double)(monotonic_clock_us() - exchange.arrived_us) / 1e3;
    assert_true(duration_in(line) >= (double)ago_us / 1e3 - 0.001);
    assert_true(duration_in(line) <= latest_ms + 0.001);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

/* A header beyond the limit of them all is left out, the others stay. */
static void added_headers_are_bounded(void **state)
{
    (void)state;
    static char value[LIMIT_HTTP_ADDED_HEADER_BYTES];
    const size_t around = strlen("a: \r\n") + strlen("long: \r\n");
    memset(value, 'v', sizeof value);
    for (size_t extra = 0; extra < 2; extra++) {
        begin("");
        size_t length = sizeof value - around - 1 + extra;
        http_exchange_header(&exchange, "a", "1", 1);
        http_exchange_header(&exchange, "long", value, length);
        assert_memory_equal(exchange.headers.bytes, "a: 1\r\n", 6);
        assert_int_equal(exchange.headers.length, extra ? 6 : LIMIT_HTTP_ADDED_HEADER_BYTES);
        http_exchange_header(&exchange, "b", "", 0);
        assert_int_equal(exchange.headers.length,
                         extra ? strlen("a: 1\r\nb: \r\n") : LIMIT_HTTP_ADDED_HEADER_BYTES);
        http_exchange_fini(&exchange);
        http_parser_fini(&request);
    }
    begin("");
}

int main(void)
{
    log_init("test", LOG_INFO);
    const struct CMUnitTest tests[] = {
        TEST(an_id_of_visible_characters_is_kept),
        TEST(another_id_is_replaced),
        TEST(the_body_moves_out_once),
        TEST(a_note_replaces_the_one_of_its_name),
        TEST(notes_have_a_maximum),
        TEST(added_headers_are_bounded),
        TEST(the_log_line_tells_the_reply),
        TEST(the_log_line_tells_that_the_client_left),
        TEST(the_duration_is_in_milliseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
