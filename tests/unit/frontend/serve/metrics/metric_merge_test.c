/*
 * Pages of several engines as one: every family once, all samples below it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/serve/metrics/metric_merge.h"
#include "frontend/serve/metrics/metric_text.h"

static void page_write(struct text_buffer *out, const char *model, const char *own, double value)
{
    const struct metric_label label = {"m", model};
    struct metric_text text = {.out = out, .common = &label, .common_count = 1};
    metric_text_value(&text, "x", METRIC_GAUGE, "X.", value);
    if (own)
        metric_text_value(&text, own, METRIC_COUNTER, "Own.", value + 1);
    metric_text_family(&text, "y", METRIC_GAUGE, "Y.");
    metric_text_sample(&text, NULL, 0, value + 2);
    metric_text_sample(&text, &(struct metric_label){"n", "# HELP x"}, 1, value + 3);
}

static void test_families_are_joined(void **state)
{
    (void)state;
    struct text_buffer pages[4] = {0}, out = {0};
    page_write(&pages[0], "a", NULL, 1);
    page_write(&pages[2], "b", "z", 10); /* pages[1] and pages[3] are empty */
    metric_merge(pages, 4, &out);
    assert_string_equal(out.bytes, "# HELP x X.\n# TYPE x gauge\nx{m=\"a\"} 1\nx{m=\"b\"} 10\n"
                                   "# HELP y Y.\n# TYPE y gauge\ny{m=\"a\"} 3\n"
                                   "y{m=\"a\",n=\"# HELP x\"} 4\ny{m=\"b\"} 12\n"
                                   "y{m=\"b\",n=\"# HELP x\"} 13\n"
                                   "# HELP z Own.\n# TYPE z counter\nz{m=\"b\"} 11\n");
    text_buffer_fini(&pages[0]);
    text_buffer_fini(&pages[2]);
    text_buffer_fini(&out);
}

static void test_one_page_stays_itself(void **state)
{
    (void)state;
    struct text_buffer page = {0}, out = {0};
    page_write(&page, "a", "z", 1);
    metric_merge(&page, 1, &out);
    assert_string_equal(out.bytes, page.bytes);
    text_buffer_fini(&page);
    text_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families_are_joined),
        cmocka_unit_test(test_one_page_stays_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
