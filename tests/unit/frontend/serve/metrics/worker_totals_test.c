/*
 * Counters of a worker that lies: values that fall or grow faster than time allows stay out of the
 * totals and are counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/serve/metrics/worker_totals.h"

#define SECOND_US 1000000

static struct worker_gauges gauges;
static struct worker_counters counters;

static int setup(void **state)
{
    (void)state;
    memset(&gauges, 0, sizeof gauges);
    worker_counters_init(&counters, 5 * SECOND_US);
    gauges.steps = 100;
    gauges.generated_tokens_total = 800;
    gauges.step_time_total_us = 900000;
    worker_counters_read(&counters, &gauges, 6 * SECOND_US);
    return 0;
}

static struct worker_totals totals_now(void)
{
    struct worker_totals totals = {0};
    worker_totals_add(&totals, &counters);
    return totals;
}

static void plausible_counters_are_the_totals(void **state)
{
    (void)state;
    gauges.step_tokens_classes[WORKER_STEP_TOKENS_CLASSES - 1] = 7;
    gauges.patch_rows_total = 9;
    worker_counters_read(&counters, &gauges, 7 * SECOND_US);
    struct worker_totals totals = totals_now();
    assert_int_equal(totals.steps, 100);
    assert_int_equal(totals.generated_tokens, 800);
    assert_int_equal(totals.step_time_us, 900000);
    assert_int_equal(totals.step_tokens_classes[WORKER_STEP_TOKENS_CLASSES - 1], 7);
    assert_int_equal(totals.patch_rows, 9);
    assert_int_equal(totals.implausible, 0);
}

static void a_lie_leaves_the_last_value(void **state)
{
    (void)state;
    static const uint64_t lies[] = {
        UINT64_MAX, 0x7FF8000000000000, 0x8000000000000000, 1ull << 40, 99, 0};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        gauges.steps = lies[i];
        worker_counters_read(&counters, &gauges, 7 * SECOND_US);
        assert_int_equal(totals_now().steps, 100);
        assert_int_equal(totals_now().implausible, i + 1);
    }
    gauges.steps = 101; /* the others were read all the time, and this one is believed again */
    gauges.generated_tokens_total = 801;
    worker_counters_read(&counters, &gauges, 8 * SECOND_US);
    assert_int_equal(totals_now().steps, 101);
    assert_int_equal(totals_now().generated_tokens, 801);
}

static void every_counter_is_checked(void **state)
{
    (void)state;
    struct worker_totals before = totals_now();
    memset(&gauges, 0xFF, sizeof gauges);
    worker_counters_read(&counters, &gauges, 7 * SECOND_US);
    struct worker_totals after = totals_now();
    assert_int_equal(after.implausible, WORKER_COUNTERS);
    after.implausible = 0;
    assert_memory_equal(&after, &before, sizeof after);
}

static void time_bounds_the_growth(void **state)
{
    (void)state;
    gauges.step_time_total_us = 100 * SECOND_US;
    worker_counters_read(&counters, &gauges, 7 * SECOND_US);
    assert_int_equal(totals_now().step_time_us, 900000);
    worker_counters_read(&counters, &gauges, 107 * SECOND_US);
    assert_int_equal(totals_now().step_time_us, 100 * SECOND_US);
}

static void a_gauge_beyond_its_bound_is_0(void **state)
{
    (void)state;
    assert_int_equal(worker_gauge_bounded(7, 7), 7);
    assert_int_equal(worker_gauge_bounded(8, 7), 0);
    assert_int_equal(worker_gauge_bounded(UINT64_MAX, WORKER_GAUGE_BYTES), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(plausible_counters_are_the_totals, setup),
        cmocka_unit_test_setup(a_lie_leaves_the_last_value, setup),
        cmocka_unit_test_setup(every_counter_is_checked, setup),
        cmocka_unit_test_setup(time_bounds_the_growth, setup),
        cmocka_unit_test_setup(a_gauge_beyond_its_bound_is_0, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
