/*
 * Events from bytes in pieces of any size: line ends, joined data, comments, bounds.
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
#include "scripts/load/sse_event_reader.h"

struct collected {
    char events[512]; /* each followed by a | */
    enum result answer;
};

static enum result collect(void *context, const char *data, size_t length)
{
    struct collected *collected = context;
    assert_int_equal(strlen(data), length);
    strcat(collected->events, data);
    strcat(collected->events, "|");
    return collected->answer;
}

static void events_come_out_of_pieces_of_any_size(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *events;
    } cases[] = {
        {"data: {\"a\":1}\n\ndata: [DONE]\n\n", "{\"a\":1}|[DONE]|"},
        {"data: one\r\n\r\ndata: two\r\n\r\n", "one|two|"},
        {"data: one\r\rdata: two\r\r", "one|two|"},
        {"data:one\ndata:  two\ndata\ndata:\n\n", "one\n two\n|"},
        {": comment\n\nevent: x\nid: 7\nretry: 5\ndata: y\n\n", "y|"},
        {"\n\n\ndata: x\n\n\n\n", "x|"},
        {"data: never ended\n", ""},
        {"datax: no\n\ndata: \n\n", "|"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t length = strlen(cases[i].text);
        for (size_t step = 1; step <= length; step++) {
            struct sse_event_reader reader = {0};
            struct collected collected = {0};
            for (size_t at = 0; at < length; at += step) {
                size_t count = length - at < step ? length - at : step;
                char *piece = malloc(count);
                must(piece != NULL);
                memcpy(piece, cases[i].text + at, count);
                assert_int_equal(sse_event_reader_feed(&reader, piece, count, collect, &collected),
                                 RESULT_OK);
                free(piece);
            }
            assert_string_equal(collected.events, cases[i].events);
            sse_event_reader_fini(&reader);
        }
    }
}

static enum result feed_forever(const char *piece)
{
    struct sse_event_reader reader = {0};
    struct collected collected = {0};
    enum result result = RESULT_OK;
    for (size_t fed = 0; fed < 8u * SSE_EVENT_BYTES && result == RESULT_OK; fed += strlen(piece))
        result = sse_event_reader_feed(&reader, piece, strlen(piece), collect, &collected);
    assert_true(reader.line_capacity <= SSE_EVENT_BYTES);
    assert_true(reader.data_capacity <= SSE_EVENT_BYTES);
    sse_event_reader_fini(&reader);
    return result;
}

static void lines_and_events_are_bounded(void **state)
{
    (void)state;
    assert_int_equal(feed_forever("data: and no line end "), RESULT_TOO_LARGE);
    assert_int_equal(feed_forever(": a comment without an end "), RESULT_TOO_LARGE);
    assert_int_equal(feed_forever("data: a line of one endless event\n"), RESULT_TOO_LARGE);
    assert_int_equal(feed_forever("data:\n"), RESULT_TOO_LARGE);
    assert_int_equal(feed_forever(": comments\n\n"), RESULT_OK);
}

static void zero_bytes_are_refused(void **state)
{
    (void)state;
    struct sse_event_reader reader = {0};
    struct collected collected = {0};
    assert_int_equal(sse_event_reader_feed(&reader, "data: a\0b\n\n", 11, collect, &collected),
                     RESULT_CORRUPT);
    sse_event_reader_fini(&reader);
}

static void an_event_may_stop_it(void **state)
{
    (void)state;
    struct sse_event_reader reader = {0};
    struct collected collected = {.answer = RESULT_CANCELLED};
    static const char text[] = "data: one\n\ndata: two\n\n";
    assert_int_equal(sse_event_reader_feed(&reader, text, strlen(text), collect, &collected),
                     RESULT_CANCELLED);
    assert_string_equal(collected.events, "one|");
    sse_event_reader_fini(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_out_of_pieces_of_any_size),
        cmocka_unit_test(lines_and_events_are_bounded),
        cmocka_unit_test(zero_bytes_are_refused),
        cmocka_unit_test(an_event_may_stop_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
