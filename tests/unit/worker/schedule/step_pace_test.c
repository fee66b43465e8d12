/*
 * step_pace: small before anything is known, then as many rows as the time allows, between one
 * block and the caller's bound, following a change within a few steps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/schedule/step_pace.h"

static void test_unmeasured_is_small(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    assert_int_equal(step_pace_lone_rows(&pace, 512), 64);
    assert_int_equal(step_pace_mixed_rows(&pace, 512), 64);
    assert_int_equal(step_pace_mixed_rows(&pace, 8), 8);
}

static void test_rows_follow_the_time(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    step_pace_note(&pace, 60, 4, 64000); /* 1 ms a row */
    assert_int_equal(step_pace_lone_rows(&pace, 512), 500);
    assert_int_equal(step_pace_mixed_rows(&pace, 512), 100);
    assert_int_equal(step_pace_mixed_rows(&pace, 64), 64);
    for (int i = 0; i < 40; i++)
        step_pace_note(&pace, 100, 0, 2000000); /* 20 ms a row */
    assert_in_range(step_pace_lone_rows(&pace, 512), 24, 26);
    assert_int_equal(step_pace_mixed_rows(&pace, 512), 16); /* not below a block */
    for (int i = 0; i < 40; i++)
        step_pace_note(&pace, 16, 0, 1);
    assert_int_equal(step_pace_lone_rows(&pace, 512), 512);
}

static void test_few_rows_teach_nothing(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    step_pace_note(&pace, 15, 100, 1000000000);
    step_pace_note(&pace, 0, 1, 1000000000);
    assert_int_equal(step_pace_lone_rows(&pace, 512), 64);
}

static void test_odd_times_stay_in_range(void **state)
{
    (void)state;
    struct step_pace pace = {0};
    step_pace_note(&pace, 512, 0, 0); /* a clock that stood still */
    assert_int_equal(step_pace_lone_rows(&pace, 512), 64);
    step_pace_note(&pace, 512, 0, UINT64_MAX);
    assert_int_equal(step_pace_lone_rows(&pace, 512), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unmeasured_is_small),
        cmocka_unit_test(test_rows_follow_the_time),
        cmocka_unit_test(test_few_rows_teach_nothing),
        cmocka_unit_test(test_odd_times_stay_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
