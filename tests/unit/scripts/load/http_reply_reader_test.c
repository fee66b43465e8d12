/*
 * Replies come in pieces of any size, in three framings, and from servers that lie.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "scripts/load/http_reply_reader.h"

struct collected {
    char body[256];
    size_t length;
    enum result answer;
};

static enum result collect(void *context, const char *bytes, size_t count)
{
    struct collected *collected = context;
    assert_true(collected->length + count < sizeof collected->body);
    memcpy(collected->body + collected->length, bytes, count);
    collected->length += count;
    collected->body[collected->length] = '\0';
    return collected->answer;
}

/* Reads `text` in pieces of `step` bytes. */
static enum result read_in(const char *text, size_t step, struct http_reply_reader *reader,
                           struct collected *collected)
{
    *reader = (struct http_reply_reader){0};
    *collected = (struct collected){0};
    size_t length = strlen(text);
    enum result result = RESULT_OK;
    for (size_t at = 0; at < length && result == RESULT_OK; at += step) {
        size_t count = length - at < step ? length - at : step;
        char *piece = malloc(count); /* so that a sanitizer sees a read past its end */
        must(piece != NULL);
        memcpy(piece, text + at, count);
        result = http_reply_reader_feed(reader, piece, count, collect, collected);
        free(piece);
    }
    return result;
}

static void framings_are_taken_off_in_pieces_of_any_size(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
        const char *body;
        bool done;
        bool stream;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
         "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n00b;x=y\r\n, you there\r\n0\r\n"
         "Trailer: x\r\n\r\nrest",
         200, "hello, you there", true, true},
        {"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\ncontent-type: text/plain\r\n\r\nhello "
         "rest",
         404, "hello", true, false},
        {"HTTP/1.0 200\nContent-Type:TEXT/EVENT-STREAM\n\nhello", 200, "hello", false, true},
        {"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200,
         "", true, false},
        {"HTTP/1.1 204 No Content\r\n\r\n", 204, "", true, false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: "
         "chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
         200, "x", true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t step = 1; step <= strlen(cases[i].text); step++) {
            struct http_reply_reader reader;
            struct collected collected;
            assert_int_equal(read_in(cases[i].text, step, &reader, &collected), RESULT_OK);
            assert_int_equal(reader.status, cases[i].status);
            assert_string_equal(collected.body, cases[i].body);
            assert_int_equal(reader.stage == HTTP_REPLY_DONE, cases[i].done);
            assert_int_equal(reader.is_event_stream, cases[i].stream);
            assert_true(http_reply_reader_is_whole_at_close(&reader));
        }
    }
}

static void what_is_no_http_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/2 200 OK\r\n",
        "HTTP/1.1 20 OK\r\n",
        "HTTP/1.1 2000 OK\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n",
        "HTTP/1.1 200 OK\r\n: empty\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (size_t step = 1; step < 100; step += 33) {
            struct http_reply_reader reader;
            struct collected collected;
            if (read_in(texts[i], step, &reader, &collected) != RESULT_CORRUPT)
                fail_msg("taken: %s", texts[i]);
        }
    }
    struct http_reply_reader reader = {0};
    struct collected collected = {0};
    assert_int_equal(http_reply_reader_feed(&reader, "HTTP/1.1 200\0\r\n", 15, collect, &collected),
                     RESULT_CORRUPT);
}

/* Feeds `piece` until it is refused; fails when 100 times the bound go in. */
static enum result feed_forever(const char *start, const char *piece)
{
    struct http_reply_reader reader = {0};
    struct collected collected = {0};
    assert_int_equal(http_reply_reader_feed(&reader, start, strlen(start), collect, &collected),
                     RESULT_OK);
    for (size_t fed = 0; fed < 100u * HTTP_REPLY_HEAD_BYTES; fed += strlen(piece)) {
        enum result result =
            http_reply_reader_feed(&reader, piece, strlen(piece), collect, &collected);
        if (result != RESULT_OK)
            return result;
    }
    fail_msg("endless: %s", piece);
    return RESULT_OK;
}

static void heads_are_bounded(void **state)
{
    (void)state;
    assert_int_equal(feed_forever("HTTP/1.1 200 ", "OK and "), RESULT_TOO_LARGE);
    assert_int_equal(feed_forever("HTTP/1.1 200 OK\r\n", "Name: value\r\n"), RESULT_TOO_LARGE);
    assert_int_equal(feed_forever("", "HTTP/1.1 100 Continue\r\n\r\n"), RESULT_TOO_LARGE);
    assert_int_equal(feed_forever("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
                                  "Trailer: value\r\n"),
                     RESULT_TOO_LARGE);
    assert_int_equal(feed_forever("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "x"),
                     RESULT_TOO_LARGE);
}

static void many_chunks_are_no_long_head(void **state)
{
    (void)state;
    struct http_reply_reader reader = {0};
    static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    struct collected collected = {0};
    assert_int_equal(http_reply_reader_feed(&reader, head, strlen(head), collect, &collected),
                     RESULT_OK);
    for (int i = 0; i < 100000; i++) {
        collected.length = 0;
        assert_int_equal(http_reply_reader_feed(&reader, "1\r\nx\r\n", 6, collect, &collected),
                         RESULT_OK);
    }
}

static void a_reply_that_is_cut_is_not_whole(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct http_reply_reader reader;
        struct collected collected;
        assert_int_equal(read_in(texts[i], 7, &reader, &collected), RESULT_OK);
        assert_false(http_reply_reader_is_whole_at_close(&reader));
    }
}

static void the_body_may_stop_it(void **state)
{
    (void)state;
    struct http_reply_reader reader = {0};
    struct collected collected = {.answer = RESULT_CANCELLED};
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    assert_int_equal(http_reply_reader_feed(&reader, text, strlen(text), collect, &collected),
                     RESULT_CANCELLED);
    assert_string_equal(collected.body, "hello");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(framings_are_taken_off_in_pieces_of_any_size),
        cmocka_unit_test(what_is_no_http_is_refused),
        cmocka_unit_test(heads_are_bounded),
        cmocka_unit_test(many_chunks_are_no_long_head),
        cmocka_unit_test(a_reply_that_is_cut_is_not_whole),
        cmocka_unit_test(the_body_may_stop_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
