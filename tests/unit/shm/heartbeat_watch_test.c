/*
 * The heartbeat check: hung means no new beat for the limit while work was expected.
 */
// tags: threads arm
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/peer_watch.h"

#define LIMIT_MS 1000

static void a_beating_peer_is_never_hung(void **state)
{
    (void)state;
    struct heartbeat_watch watch = {0};
    int64_t now_ms = 123456;
    for (uint64_t beat = 0; beat < 1000; beat++, now_ms += LIMIT_MS - 1)
        assert_false(heartbeat_watch_hung(&watch, beat, true, now_ms, LIMIT_MS));
}

static void a_needed_still_peer_is_hung_at_the_limit(void **state)
{
    (void)state;
    struct heartbeat_watch watch = {0};
    assert_false(heartbeat_watch_hung(&watch, 0, true, 5000, LIMIT_MS));
    assert_false(heartbeat_watch_hung(&watch, 0, true, 5999, LIMIT_MS));
    assert_true(heartbeat_watch_hung(&watch, 0, true, 6000, LIMIT_MS));
    assert_true(heartbeat_watch_hung(&watch, 0, true, 9000, LIMIT_MS));
    assert_false(heartbeat_watch_hung(&watch, 1, true, 9001, LIMIT_MS)); /* it came back */
    assert_false(heartbeat_watch_hung(&watch, 1, true, 10000, LIMIT_MS));
    assert_true(heartbeat_watch_hung(&watch, 1, true, 10001, LIMIT_MS));
}

static void idle_time_does_not_count(void **state)
{
    (void)state;
    struct heartbeat_watch watch = {0};
    for (int64_t now_ms = 0; now_ms < 100000; now_ms += 500)
        assert_false(heartbeat_watch_hung(&watch, 3, false, now_ms, LIMIT_MS));
    /* Work arrives: the clock starts now (the last idle sample was at 99500). */
    assert_false(heartbeat_watch_hung(&watch, 3, true, 100400, LIMIT_MS));
    assert_true(heartbeat_watch_hung(&watch, 3, true, 100500, LIMIT_MS));
}

static void any_change_is_a_beat(void **state)
{
    (void)state;
    /* A worker may write anything; a count that goes back is a sign of life, not of order. */
    struct heartbeat_watch watch = {0};
    assert_false(heartbeat_watch_hung(&watch, 100, true, 0, LIMIT_MS));
    assert_false(heartbeat_watch_hung(&watch, 99, true, 900, LIMIT_MS));
    assert_false(heartbeat_watch_hung(&watch, 99, true, 1800, LIMIT_MS));
    assert_true(heartbeat_watch_hung(&watch, 99, true, 1900, LIMIT_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_beating_peer_is_never_hung),
        cmocka_unit_test(a_needed_still_peer_is_hung_at_the_limit),
        cmocka_unit_test(idle_time_does_not_count),
        cmocka_unit_test(any_change_is_a_beat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
