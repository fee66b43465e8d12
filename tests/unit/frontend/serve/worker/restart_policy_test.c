/*
 * Pauses before restarts: none after progress, doubled without, bounded, forgiven.
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
        restart_policy_note_death(&record);
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
        restart_policy_note_death(&record);
        assert_int_equal(restart_policy_delay_ms(&record), expected_ms[i]);
    }
    record.failed_starts = UINT32_MAX - 1;
    restart_policy_note_death(&record);
    assert_int_equal(restart_policy_delay_ms(&record), 10000);
}

static void progress_is_of_one_life_and_forgives(void **state)
{
    (void)state;
    struct restart_record record = {0};
    restart_policy_note_progress(&record);
    restart_policy_note_death(&record);
    restart_policy_note_death(&record); /* the next one told nothing */
    restart_policy_note_death(&record);
    assert_int_equal(restart_policy_delay_ms(&record), 200);
    restart_policy_note_progress(&record);
    restart_policy_note_death(&record);
    assert_int_equal(restart_policy_delay_ms(&record), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_worked_is_followed_at_once),
        cmocka_unit_test(pauses_double_up_to_ten_seconds),
        cmocka_unit_test(progress_is_of_one_life_and_forgives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
