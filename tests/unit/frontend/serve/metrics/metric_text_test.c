/*
 * Prometheus' text format: escapes, numbers, bounds, cumulative buckets.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "frontend/serve/metrics/metric_text.h"

static void labels_and_help_are_escaped(void **state)
{
    (void)state;
    struct text_buffer out = {0};
    const struct metric_label common = {"model_name", "a\"b\\c\nd{e}"};
    const struct metric_label more = {"reason", ""};
    struct metric_text text = {.out = &out, .common = &common, .common_count = 1};
    metric_text_family(&text, "x", METRIC_GAUGE, "back\\slash\nand \"quotes\"");
    metric_text_sample(&text, &more, 1, 2);
    assert_string_equal(out.bytes, "# HELP x back\\\\slash\\nand \"quotes\"\n# TYPE x gauge\n"
                                   "x{model_name=\"a\\\"b\\\\c\\nd{e}\",reason=\"\"} 2\n");
    text_buffer_fini(&out);
}

static void numbers_keep_their_digits(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *words;
    } cases[] = {
        {0, "n 0\n"},
        {123456789012345.0, "n 123456789012345\n"},
        {0.5, "n 0.5\n"},
        {-3, "n -3\n"},
        {NAN, "n NaN\n"},
        {INFINITY, "n +Inf\n"},
        {1e300, "n 1.0000000000000001e+300\n"},
        {-INFINITY, "n -Inf\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct text_buffer out = {0};
        struct metric_text text = {.out = &out, .family = "n"};
        metric_text_sample(&text, NULL, 0, cases[i].value);
        assert_non_null(strstr(out.bytes, cases[i].words));
        text_buffer_fini(&out);
    }
}

static void buckets_are_cumulative_and_end_with_inf(void **state)
{
    (void)state;
    static const double bounds[] = {0.025, 1, 1e6};
    struct metric_histogram histogram;
    struct text_buffer out = {0};
    struct metric_text text = {.out = &out, .family = "h"};
    metric_histogram_init(&histogram, bounds, 3);
    metric_histogram_observe(&histogram, 0.025); /* exactly a bound: in it */
    metric_histogram_observe(&histogram, 0.5);
    metric_histogram_observe(&histogram, 2e6); /* above all bounds */
    metric_histogram_observe(&histogram, -1);  /* counts as nothing */
    metric_text_histogram(&text, &histogram);
    assert_string_equal(out.bytes, "h_bucket{le=\"0.025\"} 2\nh_bucket{le=\"1.0\"} 3\n"
                                   "h_bucket{le=\"1e+06\"} 3\nh_bucket{le=\"+Inf\"} 4\n"
                                   "h_sum 2000000.5249999999\nh_count 4\n");
    text_buffer_fini(&out);
}

static void decades_reach_up_to_the_greatest(void **state)
{
    (void)state;
    struct metric_histogram histogram;
    static const double expected[] = {1, 2, 5, 10, 20, 50, 100};
    metric_histogram_init_decades(&histogram, 199);
    assert_int_equal(histogram.bound_count, 7);
    for (size_t i = 0; i < 7; i++)
        assert_true(histogram.bounds[i] == expected[i]);
    metric_histogram_init_decades(&histogram, 0);
    assert_int_equal(histogram.bound_count, 0);
    metric_histogram_observe(&histogram, 5);
    assert_int_equal(histogram.counts[0], 1);
    metric_histogram_init_decades(&histogram, UINT64_MAX); /* no more than there is room for */
    assert_int_equal(histogram.bound_count, METRIC_HISTOGRAM_BOUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_and_help_are_escaped),
        cmocka_unit_test(numbers_keep_their_digits),
        cmocka_unit_test(buckets_are_cumulative_and_end_with_inf),
        cmocka_unit_test(decades_reach_up_to_the_greatest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
