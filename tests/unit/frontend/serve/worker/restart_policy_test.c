/*
 * Delays before restarts: none after progress, doubled without, bounded, reset by progress. Deaths
 * from outside are no failed starts.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/serve/worker/restart_policy.h"

static void a_worker_that_worked_is_followed_at_once(void **state)
{
    (void)state;
    struct restart_record record = {0};
    for (int life = 0; life < 100; life++) {
        restart_policy_note_progress(&record);
        restart_policy_note_death(&record, false);
        assert_int_equal(restart_policy_delay_ms(&record), 0);
        assert_int_equal(record.failed_starts, 0);
    }
}

static void pauses_double_up_to_ten_seconds(void **state)
{
    (void)state;
    const int expected_ms[] = {100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000};
    struct restart_record record = {0};
    for (size_t i = 0; i < sizeof expected_ms / sizeof expected_ms[0]; i++) {
        restart_policy_note_death(&record, false);
        assert_int_equal(restart_policy_delay_ms(&record), expected_ms[i]);
    }
    record.failed_starts = UINT32_MAX - 1;
    restart_policy_note_death(&record, false);
    assert_int_equal(restart_policy_delay_ms(&record), 10000);
}

static void progress_is_of_one_life_and_resets(void **state)
{
    (void)state;
    struct restart_record record = {0};
    restart_policy_note_progress(&record);
    restart_policy_note_death(&record, false);
    restart_policy_note_death(&record, false); /* the next one told nothing */
    restart_policy_note_death(&record, false);
    assert_int_equal(restart_policy_delay_ms(&record), 200);
    restart_policy_note_progress(&record);
    restart_policy_note_death(&record, false);
    assert_int_equal(restart_policy_delay_ms(&record), 0);
}

static void kills_of_a_ready_worker_cost_nothing(void **state)
{
    (void)state;
    struct restart_record record = {0};
    for (int life = 0; life < 1000; life++) {
        restart_policy_note_ready(&record);
        restart_policy_note_death(&record, true);
        assert_int_equal(restart_policy_delay_ms(&record), 0);
        assert_false(restart_policy_is_hopeless(&record));
        assert_false(restart_policy_gives_up(&record));
    }
}

static void a_token_proves_that_the_worker_was_ready(void **state)
{
    (void)state;
    struct restart_record record = {0};
    restart_policy_note_progress(&record);
    restart_policy_note_death(&record, true);
    assert_int_equal(record.killed_starts, 0);
    assert_int_equal(restart_policy_delay_ms(&record), 0);
}

static void kills_while_it_loads_delay_but_are_no_failed_starts(void **state)
{
    (void)state;
    const int expected_ms[] = {100, 200, 400, 800, 1600, 1600};
    struct restart_record record = {0};
    for (size_t i = 0; i < sizeof expected_ms / sizeof expected_ms[0]; i++) {
        restart_policy_note_death(&record, true);
        assert_int_equal(restart_policy_delay_ms(&record), expected_ms[i]);
        assert_int_equal(record.failed_starts, 0);
        assert_false(restart_policy_gives_up(&record));
    }
    restart_policy_note_ready(&record);
    restart_policy_note_death(&record, true);
    assert_int_equal(restart_policy_delay_ms(&record), 0);
}

static void starts_are_given_up(void **state)
{
    (void)state;
    struct restart_record failed = {0}, killed = {0};
    for (int i = 0; i < 7; i++) {
        assert_int_equal(restart_policy_gives_up(&failed), i >= 3);
        assert_false(restart_policy_is_hopeless(&failed));
        restart_policy_note_death(&failed, false);
    }
    assert_true(restart_policy_is_hopeless(&failed));
    int tries = 0;
    for (int waited_ms = 0; !restart_policy_is_hopeless(&killed); tries++) {
        restart_policy_note_death(&killed, true);
        waited_ms += restart_policy_delay_ms(&killed);
        assert_int_equal(restart_policy_gives_up(&killed), tries == 63);
        assert_true(waited_ms < 120000);
    }
    assert_int_equal(tries, 64); /* about 100 s of delays */
    assert_true(restart_policy_gives_up(&killed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_worked_is_followed_at_once),
        cmocka_unit_test(pauses_double_up_to_ten_seconds),
        cmocka_unit_test(progress_is_of_one_life_and_resets),
        cmocka_unit_test(kills_of_a_ready_worker_cost_nothing),
        cmocka_unit_test(a_token_proves_that_the_worker_was_ready),
        cmocka_unit_test(kills_while_it_loads_delay_but_are_no_failed_starts),
        cmocka_unit_test(starts_are_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
