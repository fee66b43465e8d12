/*
 * Valid and invalid requests: each rule of the parser, in one piece and byte by byte.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/http/http_parser.h"
#include "tests/support/no_memory.h"
#include "tests/support/sanitized.h"

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

/* A path does not begin inside the query of an absolute target. */
static void an_absolute_target_gives_authority_path_and_query(void **state)
{
    (void)state;
    static const struct {
        const char *target, *authority, *path, *query;
    } cases[] = {
        {"http://evil?/v1/models", "evil", "/", "/v1/models"},
        {"http://h:80/v1/x?a=/b", "h:80", "/v1/x", "a=/b"},
        {"HTTPS://[::1]:8080", "[::1]:8080", "/", ""},
        {"http://a/", "a", "/", ""},
        {"/v1/models?http://evil/", "header", "/v1/models", "http://evil/"},
        {"//v1///models//", "header", "/v1/models", ""},
        {"/v1/models/?a=//b/", "header", "/v1/models", "a=//b/"},
        {"///", "header", "/", ""},
        {"http://a//v1/", "a", "/v1", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char request[256];
        struct http_parser parser;
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: header\r\n\r\n",
                 cases[i].target);
        feed(&parser, request, 1000);
        assert_int_equal(parser.state, HTTP_PARSER_DONE);
        assert_string_equal(parser.authority, cases[i].authority);
        assert_string_equal(parser.path, cases[i].path);
        assert_string_equal(parser.query, cases[i].query);
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
    /* Between chunks only CRLF ends a line. */
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nx\n0\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\rx\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1;a=\rb\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r0\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3c 5 junk\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1 \r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\nname : x\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\na: b\rc\r\n\r\n", 400},
    /* The target's and the header's host. */
    {"GET http://evil#/v1/models HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http:///v1/models HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http://a@b/ HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET /#fragment HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
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

/* "GET / HTTP/1.1", Host and one header that makes the head this long. */
static void head_write(char *text, size_t bytes)
{
    int length = sprintf(text, "GET / HTTP/1.1\r\n" HOST "A: ");
    memset(text + length, 'a', bytes - (size_t)length - 4);
    strcpy(text + bytes - 4, "\r\n\r\n");
}

/* Also at the sizes where its memory grows. */
static void a_head_may_be_as_long_as_its_limit(void **state)
{
    (void)state;
    for (size_t bytes = 1000; bytes < 2100; bytes++) {
        char text[2200];
        struct http_parser parser = {0};
        head_write(text, bytes);
        http_parser_begin(&parser, bytes, 0);
        assert_int_equal(http_parser_feed(&parser, text, bytes), bytes);
        assert_int_equal(parser.state, HTTP_PARSER_DONE);
        assert_int_equal(strlen(http_parser_header(&parser, "a")), bytes - 32);
        http_parser_begin(&parser, bytes - 1, 0);
        assert_int_equal(http_parser_feed(&parser, text, bytes), bytes - 1);
        assert_int_equal(parser.state, HTTP_PARSER_BAD);
        assert_int_equal(parser.status, 431);
        http_parser_fini(&parser);
    }
}

static void headers_have_a_maximum_number(void **state)
{
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        char text[1024] = "GET / HTTP/1.1\r\n" HOST;
        for (size_t i = 1; i < LIMIT_HTTP_HEADERS + more; i++)
            strcat(text, "a:b\r\n");
        strcat(text, "\r\n");
        struct http_parser parser = {0};
        http_parser_begin(&parser, sizeof text, 0);
        (void)http_parser_feed(&parser, text, strlen(text));
        assert_int_equal(parser.state, more ? HTTP_PARSER_BAD : HTTP_PARSER_DONE);
        assert_int_equal(parser.status, more ? 431 : 0);
        http_parser_fini(&parser);
    }
}

static void values_lose_their_outer_spaces(void **state)
{
    (void)state;
    struct http_parser parser;
    feed(&parser, "GET / HTTP/1.1\r\n" HOST "A: \t \r\nB:\tb \t\r\nC:c\r\nD: \r\n\r\n", 1000);
    assert_int_equal(parser.state, HTTP_PARSER_DONE);
    assert_string_equal(http_parser_header(&parser, "a"), "");
    assert_string_equal(http_parser_header(&parser, "b"), "b");
    assert_string_equal(http_parser_header(&parser, "c"), "c");
    assert_string_equal(http_parser_header(&parser, "d"), "");
    http_parser_fini(&parser);
}

/* A body of the limit exactly, by length and in chunks; a length of the most digits. */
static void a_body_may_be_as_large_as_its_limit(void **state)
{
    (void)state;
    static const char by_length[] = "POST / HTTP/1.1\r\n" HOST "Content-Length: 64\r\n\r\n";
    static const char chunked[] = "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n";
    char text[512], body[MAX_BODY + 1];
    struct http_parser parser;
    memset(body, 'b', MAX_BODY);
    body[MAX_BODY] = '\0';
    snprintf(text, sizeof text, "%s%s", by_length, body);
    feed(&parser, text, 1000);
    assert_int_equal(parser.state, HTTP_PARSER_DONE);
    assert_string_equal(parser.body, body);
    http_parser_fini(&parser);
    snprintf(text, sizeof text, "%s3f\r\n%s\r\n1\r\nb\r\n0\r\n\r\n", chunked, body + 1);
    feed(&parser, text, 1000);
    assert_int_equal(parser.state, HTTP_PARSER_DONE);
    assert_string_equal(parser.body, body);
    http_parser_fini(&parser);
    snprintf(text, sizeof text, "%s3f\r\n%s\r\n2\r\n", chunked, body + 1);
    feed(&parser, text, 1000);
    assert_int_equal(parser.status, 413);
    http_parser_fini(&parser);
    feed(&parser, "POST / HTTP/1.1\r\n" HOST "Content-Length: 999999999999999999\r\n\r\n", 1000);
    assert_int_equal(parser.status, 413);
    http_parser_fini(&parser);
    feed(&parser, "POST / HTTP/1.1\r\n" HOST "Content-Length: 1000000000000000000\r\n\r\n", 1000);
    assert_int_equal(parser.status, 400);
    http_parser_fini(&parser);
}

static void lines_between_chunks_have_a_maximum(void **state)
{
    (void)state;
    for (size_t bytes = LIMIT_HTTP_CHUNK_LINE_BYTES - 3; bytes < LIMIT_HTTP_CHUNK_LINE_BYTES + 2;
         bytes++) {
        char text[512] = "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1;";
        size_t length = strlen(text);
        memset(text + length, 'a', bytes - 3);
        strcpy(text + length + bytes - 3, "\r\n"); /* the line has `bytes` with its CR */
        struct http_parser parser;
        feed(&parser, text, 1000);
        bool fits = bytes < LIMIT_HTTP_CHUNK_LINE_BYTES;
        assert_int_equal(parser.state, fits ? HTTP_PARSER_CHUNK_DATA : HTTP_PARSER_BAD);
        http_parser_fini(&parser);
    }
}

static void trailers_have_the_limit_of_the_head(void **state)
{
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        struct http_parser parser;
        feed(&parser, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n", 1000);
        for (size_t bytes = 0; bytes + 8 <= MAX_HEAD - 8; bytes += 8)
            assert_int_equal(http_parser_feed(&parser, "abc: d\r\n", 8), 8);
        (void)http_parser_feed(&parser, more ? "abcd: e\r\n\r\n" : "a: b\r\n\r\n", 8 + 3 * more);
        assert_int_equal(parser.state, more ? HTTP_PARSER_BAD : HTTP_PARSER_DONE);
        assert_int_equal(parser.status, more ? 431 : 0);
        http_parser_fini(&parser);
    }
}

static void a_nul_byte_is_refused(void **state)
{
    (void)state;
    static const char *const starts[] = {
        "GET / HTTP/1.1\r\nA: ", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1"};
    for (size_t i = 0; i < 2; i++) {
        struct http_parser parser;
        feed(&parser, starts[i], 1000);
        assert_int_equal(http_parser_feed(&parser, "\0", 1), 0);
        assert_int_equal(parser.state, HTTP_PARSER_BAD);
        assert_int_equal(parser.status, 400);
        http_parser_fini(&parser);
    }
}

static void methods_are_recognized(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum http_method method;
    } cases[] = {{"GET", HTTP_GET},     {"HEAD", HTTP_HEAD},     {"POST", HTTP_POST},
                 {"PUT", HTTP_PUT},     {"DELETE", HTTP_DELETE}, {"OPTIONS", HTTP_OPTIONS},
                 {"PATCH", HTTP_OTHER}, {"get", HTTP_OTHER}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        struct http_parser parser;
        snprintf(text, sizeof text, "%s / HTTP/1.1\r\n" HOST "\r\n", cases[i].name);
        feed(&parser, text, 1000);
        assert_int_equal(parser.state, HTTP_PARSER_DONE);
        assert_string_equal(parser.method_name, cases[i].name);
        assert_int_equal(parser.method, cases[i].method);
        assert_int_equal(parser.minor_version, 1);
        http_parser_fini(&parser);
    }
}

static void a_continue_is_expected_only_before_a_body(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        bool expected;
    } cases[] = {
        {"POST / HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\n", true},
        {"POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 0\r\n\r\n", false},
        {"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", false},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\n", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct http_parser parser;
        feed(&parser, cases[i].request, 1000);
        assert_int_equal(parser.expects_continue, cases[i].expected);
        http_parser_fini(&parser);
    }
}

static void a_request_starts_with_its_first_byte(void **state)
{
    (void)state;
    struct http_parser parser = {0};
    http_parser_begin(&parser, MAX_HEAD, MAX_BODY);
    assert_int_equal(http_parser_feed(&parser, "\r\n\n", 3), 3); /* ignored */
    assert_false(http_parser_started(&parser));
    assert_int_equal(http_parser_feed(&parser, "G", 1), 1);
    assert_true(http_parser_started(&parser));
    http_parser_fini(&parser);
}

static void a_head_without_memory_is_refused(void **state)
{
    (void)state;
    static char value[100000];
    static const char begin[] = "GET / HTTP/1.1\r\nHost: h\r\nA: ";
    struct http_parser parser = {0};
    if (SANITIZED)
        skip();
    memset(value, 'v', sizeof value);
    http_parser_begin(&parser, 2 * sizeof value, 0);
    assert_int_equal(http_parser_feed(&parser, begin, sizeof begin - 1), sizeof begin - 1);
    no_memory_begin(1 << 12);
    (void)http_parser_feed(&parser, value, sizeof value);
    no_memory_end();
    assert_int_equal(parser.state, HTTP_PARSER_BAD);
    assert_int_equal(parser.status, 503);
    http_parser_fini(&parser);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read_whole_or_in_pieces),
        cmocka_unit_test(chunks_are_joined),
        cmocka_unit_test(an_absolute_target_gives_authority_path_and_query),
        cmocka_unit_test(the_body_moves_out),
        cmocka_unit_test(keep_alive_follows_the_version_and_header),
        cmocka_unit_test(invalid_requests_are_refused_with_their_status),
        cmocka_unit_test(endless_lines_are_refused),
        cmocka_unit_test(endless_headers_and_trailers_are_refused),
        cmocka_unit_test(a_head_may_be_as_long_as_its_limit),
        cmocka_unit_test(headers_have_a_maximum_number),
        cmocka_unit_test(values_lose_their_outer_spaces),
        cmocka_unit_test(a_body_may_be_as_large_as_its_limit),
        cmocka_unit_test(lines_between_chunks_have_a_maximum),
        cmocka_unit_test(trailers_have_the_limit_of_the_head),
        cmocka_unit_test(a_nul_byte_is_refused),
        cmocka_unit_test(methods_are_recognized),
        cmocka_unit_test(a_continue_is_expected_only_before_a_body),
        cmocka_unit_test(a_request_starts_with_its_first_byte),
        cmocka_unit_test(a_head_without_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
