/*
 * Means, deviations and percentiles, against values that numpy gives for the same samples.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "scripts/load/sample_list.h"

static void assert_near(double value, double expected)
{
    if (fabs(value - expected) > 1e-9 * (1 + fabs(expected)))
        fail_msg("%.17g is not %.17g", value, expected);
}

static void figures_are_those_of_numpy(void **state)
{
    (void)state;
    static const double samples[] = {9, 1, 4, 16, 25, 36, 2};
    struct sample_list list = {0};
    for (size_t i = 0; i < 7; i++)
        sample_list_add(&list, samples[i]);
    sample_list_sort(&list);
    assert_near(sample_list_mean(&list), 93.0 / 7);
    assert_near(sample_list_deviation(&list), 12.209063210983714);
    assert_near(sample_list_percentile(&list, 0), 1);
    assert_near(sample_list_percentile(&list, 25), 3);
    assert_near(sample_list_percentile(&list, 50), 9);
    assert_near(sample_list_percentile(&list, 90), 29.4);
    assert_near(sample_list_percentile(&list, 99), 35.34);
    assert_near(sample_list_percentile(&list, 99.9), 35.934);
    assert_near(sample_list_percentile(&list, 100), 36);
    sample_list_fini(&list);
}

static void few_samples_are_fine(void **state)
{
    (void)state;
    struct sample_list list = {0};
    sample_list_sort(&list);
    assert_near(sample_list_mean(&list), 0);
    assert_near(sample_list_deviation(&list), 0);
    assert_near(sample_list_percentile(&list, 99), 0);
    sample_list_add(&list, 5);
    sample_list_sort(&list);
    assert_near(sample_list_deviation(&list), 0);
    assert_near(sample_list_percentile(&list, 0), 5);
    assert_near(sample_list_percentile(&list, 99), 5);
    sample_list_fini(&list);
}

static void many_samples_stay(void **state)
{
    (void)state;
    struct sample_list list = {0};
    for (int i = 9999; i >= 0; i--)
        sample_list_add(&list, i);
    sample_list_sort(&list);
    assert_int_equal(list.count, 10000);
    assert_near(sample_list_percentile(&list, 99), 9899.01);
    assert_near(sample_list_mean(&list), 4999.5);
    sample_list_fini(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_numpy),
        cmocka_unit_test(few_samples_are_fine),
        cmocka_unit_test(many_samples_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
