/*
 * Arrivals have the rate and the burstiness that were asked for, from the seed alone.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "scripts/load/arrival_process.h"

#define ARRIVALS 20000

/* Mean and coefficient of variation of the intervals. */
static void measure(double rate_per_s, double burstiness, double *mean_s, double *variation)
{
    struct arrival_process process;
    arrival_process_init(&process, rate_per_s, burstiness, 7);
    double sum = 0;
    double squares = 0;
    int64_t last_us = arrival_process_next_us(&process);
    assert_int_equal(last_us, 0);
    for (int i = 0; i < ARRIVALS; i++) {
        int64_t at_us = arrival_process_next_us(&process);
        assert_true(at_us >= last_us);
        double interval_s = (double)(at_us - last_us) / 1e6;
        sum += interval_s;
        squares += interval_s * interval_s;
        last_us = at_us;
    }
    *mean_s = sum / ARRIVALS;
    *variation = sqrt(squares / ARRIVALS - *mean_s * *mean_s) / *mean_s;
}

static void intervals_have_the_rate_and_the_shape(void **state)
{
    (void)state;
    /* The variation of a gamma distribution is 1 / sqrt(shape). */
    static const double shapes[] = {0.25, 0.5, 1, 1.5, 4, 100};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        double mean_s;
        double variation;
        measure(50, shapes[i], &mean_s, &variation);
        assert_true(fabs(mean_s - 0.02) < 0.02 * 0.06);
        assert_true(fabs(variation * sqrt(shapes[i]) - 1) < 0.06);
    }
}

static void infinite_burstiness_is_even(void **state)
{
    (void)state;
    struct arrival_process process;
    arrival_process_init(&process, 4, INFINITY, 1);
    for (int i = 0; i < 100; i++)
        assert_int_equal(arrival_process_next_us(&process), i * 250000);
}

static void infinite_rate_is_all_at_once(void **state)
{
    (void)state;
    struct arrival_process process;
    arrival_process_init(&process, INFINITY, 1, 1);
    for (int i = 0; i < 100; i++)
        assert_int_equal(arrival_process_next_us(&process), 0);
}

static void the_seed_decides(void **state)
{
    (void)state;
    struct arrival_process first;
    struct arrival_process second;
    struct arrival_process other;
    arrival_process_init(&first, 10, 1, 42);
    arrival_process_init(&second, 10, 1, 42);
    arrival_process_init(&other, 10, 1, 43);
    int same = 0;
    for (int i = 0; i < 100; i++) {
        int64_t at_us = arrival_process_next_us(&first);
        assert_int_equal(at_us, arrival_process_next_us(&second));
        same += at_us == arrival_process_next_us(&other);
    }
    assert_int_equal(same, 1); /* the first, at 0 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_have_the_rate_and_the_shape),
        cmocka_unit_test(infinite_burstiness_is_even),
        cmocka_unit_test(infinite_rate_is_all_at_once),
        cmocka_unit_test(the_seed_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
