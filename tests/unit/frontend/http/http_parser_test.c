/*
 * Valid and invalid requests: each rule of the parser, in one piece and byte by byte.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/http/http_parser.h"

#define MAX_HEAD 512u
#define MAX_BODY 64u

/* Feeds pieces of `step` bytes; returns how many the request took. */
static size_t feed(struct http_parser *parser, const char *bytes, size_t step)
{
    size_t count = strlen(bytes);
    size_t at = 0;
    *parser = (struct http_parser){0};
    http_parser_begin(parser, MAX_HEAD, MAX_BODY);
    while (at < count && parser->state != HTTP_PARSER_DONE && parser->state != HTTP_PARSER_BAD) {
        size_t piece = count - at < step ? count - at : step;
        at += http_parser_feed(parser, bytes + at, piece);
    }
    return at;
}

static void a_request_is_read_whole_or_in_pieces(void **state)
{
    (void)state;
    static const char request[] =
        "\r\nPOST /v1/x?a=b HTTP/1.1\r\nHost: h\r\nX-Thing:  some words \r\n"
        "Content-Length: 5\r\n\r\nhelloGET";
    for (size_t step = 1; step < sizeof request; step++) {
        struct http_parser parser;
        assert_int_equal(feed(&parser, request, step), sizeof request - 1 - 3);
        assert_int_equal(parser.state, HTTP_PARSER_DONE);
        assert_int_equal(parser.method, HTTP_POST);
        assert_string_equal(parser.path, "/v1/x");
        assert_string_equal(parser.query, "a=b");
        assert_string_equal(http_parser_header(&parser, "x-thing"), "some words");
        assert_null(http_parser_header(&parser, "x-other"));
        assert_true(parser.keep_alive);
        assert_int_equal(parser.body_bytes, 5);
        assert_string_equal(parser.body, "hello");
        http_parser_fini(&parser);
    }
}

static void chunks_are_joined(void **state)
{
    (void)state;
    static const char request[] = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "5;name=value\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\nrest";
    for (size_t step = 1; step < sizeof request; step++) {
        struct http_parser parser;
        assert_int_equal(feed(&parser, request, step), sizeof request - 1 - 4);
        assert_int_equal(parser.state, HTTP_PARSER_DONE);
        assert_string_equal(parser.body, "hello!");
        http_parser_fini(&parser);
    }
}

static void the_body_moves_out(void **state)
{
    (void)state;
    struct http_parser parser;
    feed(&parser, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi", 100);
    size_t bytes;
    char *body = http_parser_take_body(&parser, &bytes);
    assert_int_equal(bytes, 2);
    assert_string_equal(body, "hi");
    assert_null(parser.body);
    free(body);
    http_parser_fini(&parser);
}

static void keep_alive_follows_the_version_and_header(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        bool keep;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: Close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: x, close\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
        {"GET / HTTP/1.1\nHost: h\n\n", true},
        {"GET http://h:80/path HTTP/1.1\r\nHost: h\r\n\r\n", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct http_parser parser;
        feed(&parser, cases[i].request, 1000);
        assert_int_equal(parser.state, HTTP_PARSER_DONE);
        assert_int_equal(parser.keep_alive, cases[i].keep);
        http_parser_fini(&parser);
    }
}

#define HOST "Host: h\r\n"
static const struct {
    const char *request;
    int status;
} refused[] = {
    {"nonsense\r\n\r\n", 400},
    {"GET /\r\n\r\n", 400},
    {"GET / HTTP/2.0\r\n" HOST "\r\n", 505},
    {"GET / FTP/1.1\r\n" HOST "\r\n", 400},
    {"G=T / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET path HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET /\x01 HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET /\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET / / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET / HTTP/1.1\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "no colon\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "Name : x\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "A: b\r\n folded\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "A: b\rc\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "Expect: miracles\r\n\r\n", 417},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 65\r\n\r\n", 413},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: \r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nx\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n41\r\n", 413},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400},
};

static void invalid_requests_are_refused_with_their_status(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        for (size_t step = 1; step < 40; step += 38) {
            struct http_parser parser;
            feed(&parser, refused[i].request, step);
            if (parser.state != HTTP_PARSER_BAD || parser.status != refused[i].status)
                print_error("case %zu: state %d status %d\n", i, (int)parser.state, parser.status);
            assert_int_equal(parser.state, HTTP_PARSER_BAD);
            assert_int_equal(parser.status, refused[i].status);
            assert_non_null(parser.problem);
            http_parser_fini(&parser);
        }
    }
}

/* A head, trailer or chunk line without end is refused at its limit. */
static void endless_lines_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *start;
        int status;
    } cases[] = {
        {"GET /", 414},
        {"GET / HTTP/1.1\r\nA: ", 431},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1;", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct http_parser parser;
        feed(&parser, cases[i].start, 100);
        for (int more = 0; more < 4096 && parser.state != HTTP_PARSER_BAD; more++)
            (void)http_parser_feed(&parser, "a", 1);
        assert_int_equal(parser.state, HTTP_PARSER_BAD);
        assert_int_equal(parser.status, cases[i].status);
        http_parser_fini(&parser);
    }
}

static void endless_headers_and_trailers_are_refused(void **state)
{
    (void)state;
    static const char *const starts[] = {
        "GET / HTTP/1.1\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n",
    };
    for (size_t i = 0; i < 2; i++) {
        struct http_parser parser;
        feed(&parser, starts[i], 100);
        for (int more = 0; more < 4096 && parser.state != HTTP_PARSER_BAD; more++)
            (void)http_parser_feed(&parser, "a: b\r\n", 6);
        assert_int_equal(parser.state, HTTP_PARSER_BAD);
        assert_int_equal(parser.status, 431);
        http_parser_fini(&parser);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read_whole_or_in_pieces),
        cmocka_unit_test(chunks_are_joined),
        cmocka_unit_test(the_body_moves_out),
        cmocka_unit_test(keep_alive_follows_the_version_and_header),
        cmocka_unit_test(invalid_requests_are_refused_with_their_status),
        cmocka_unit_test(endless_lines_are_refused),
        cmocka_unit_test(endless_headers_and_trailers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
