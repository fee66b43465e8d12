/*
 * The limit of a stream's unsent bytes, and its keep-alives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/http/http_reply.h"
#include "frontend/http/sse_stream.h"
#include "proto/log.h"
#include "tests/support/connection_rig.h"

#define FRAME_BYTES 32 /* counted for each chunk */

static struct connection_rig rig;
static struct sse_stream stream;
static char event[200000];

static int setup(void **state)
{
    (void)state;
    log_init("test", LOG_ERROR);
    memset(event, 'e', sizeof event);
    connection_rig_init(&rig);
    connection_rig_open(&rig, connection_rig_pair(&rig), NULL);
    connection_rig_request(&rig, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    connection_rig_fini(&rig);
    return 0;
}

static void open_with_limit(size_t max_unsent_bytes)
{
    sse_stream_open(&stream, rig.exchange, max_unsent_bytes, 0, NULL, 0);
    assert_memory_equal(connection_rig_receive(&rig), "HTTP/1.1 200 OK\r\n", 17);
}

/* Writes until the kernel takes no more; returns the unsent bytes. */
static size_t block(void)
{
    while (http_reply_unsent_bytes(rig.exchange) == 0)
        http_reply_send(rig.exchange, event, sizeof event);
    return http_reply_unsent_bytes(rig.exchange);
}

static void a_batch_with_its_frame_fits_the_limit_exactly(void **state)
{
    (void)state;
    open_with_limit(10 + FRAME_BYTES);
    assert_int_equal(sse_stream_send(&stream, event, 11, 0), RESULT_FULL);
    assert_string_equal(connection_rig_receive(&rig), "");
    assert_int_equal(sse_stream_send(&stream, event, 10, 0), RESULT_OK);
    assert_string_equal(connection_rig_receive(&rig), "a\r\neeeeeeeeee\r\n");
    assert_int_equal(sse_stream_close(&stream, event, 11), RESULT_FULL);
    assert_non_null(stream.exchange);
    assert_int_equal(sse_stream_close(&stream, event, 10), RESULT_OK);
    assert_null(stream.exchange);
    assert_string_equal(connection_rig_receive(&rig), "a\r\neeeeeeeeee\r\n0\r\n\r\n");
}

static void unsent_bytes_count_against_the_limit(void **state)
{
    (void)state;
    open_with_limit(1 << 20);
    stream.max_unsent_bytes = block() + 10 + FRAME_BYTES;
    assert_int_equal(sse_stream_send(&stream, event, 11, 0), RESULT_FULL);
    assert_int_equal(sse_stream_send(&stream, event, 10, 0), RESULT_OK);
    assert_int_equal(sse_stream_send(&stream, event, 10, 0), RESULT_FULL);
}

static void a_slow_reader_is_full_while_all_hold_too_much(void **state)
{
    (void)state;
    open_with_limit(1 << 30);
    size_t unsent = block();
    rig.config.max_unsent_bytes = unsent - 1;
    assert_int_equal(sse_stream_send(&stream, event, 1, 0), RESULT_FULL);
    rig.config.max_unsent_bytes = unsent;
    assert_int_equal(sse_stream_send(&stream, event, 1, 0), RESULT_OK);
}

static void silence_is_broken_after_the_interval(void **state)
{
    (void)state;
    open_with_limit(1 << 20);
    stream.last_sent_ms = 1000;
    sse_stream_keep_alive(&stream, 1099, 100);
    assert_string_equal(connection_rig_receive(&rig), "");
    sse_stream_keep_alive(&stream, 1100, 100);
    assert_string_equal(connection_rig_receive(&rig), "e\r\n: keep-alive\n\n\r\n");
    sse_stream_keep_alive(&stream, 1199, 100);
    assert_string_equal(connection_rig_receive(&rig), "");
    assert_int_equal(sse_stream_send(&stream, event, 1, 1190), RESULT_OK);
    (void)connection_rig_receive(&rig);
    sse_stream_keep_alive(&stream, 1200, 100);
    assert_string_equal(connection_rig_receive(&rig), "");
    sse_stream_keep_alive(&stream, 1290, 100);
    assert_string_equal(connection_rig_receive(&rig), "e\r\n: keep-alive\n\n\r\n");
}

static void a_slow_reader_gets_no_keep_alive(void **state)
{
    (void)state;
    open_with_limit(1 << 20);
    size_t unsent = block();
    sse_stream_keep_alive(&stream, 1000, 100);
    assert_int_equal(http_reply_unsent_bytes(rig.exchange), unsent);
    assert_int_equal(stream.last_sent_ms, 1000);
}

static void a_stream_that_is_over_needs_no_keep_alive(void **state)
{
    (void)state;
    open_with_limit(1 << 20);
    sse_stream_abort(&stream);
    assert_null(stream.exchange);
    sse_stream_keep_alive(&stream, 1000, 100);
    assert_string_equal(connection_rig_receive(&rig), "");
    assert_true(rig.at_end);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_batch_with_its_frame_fits_the_limit_exactly),
        TEST(unsent_bytes_count_against_the_limit),
        TEST(a_slow_reader_is_full_while_all_hold_too_much),
        TEST(silence_is_broken_after_the_interval),
        TEST(a_slow_reader_gets_no_keep_alive),
        TEST(a_stream_that_is_over_needs_no_keep_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
