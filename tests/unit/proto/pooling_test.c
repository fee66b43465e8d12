/*
 * Kinds of pooling: their names, which of them read all vectors, and names that are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/pooling.h"

static void each_kind_has_its_name(void **state)
{
    (void)state;
    static const struct {
        enum pooling pooling;
        const char *name;
        bool reads_all;
    } kinds[] = {
        {POOLING_OFF, "off", false}, {POOLING_LAST, "last", false}, {POOLING_MEAN, "mean", true},
        {POOLING_CLS, "cls", true},  {POOLING_MAX, "max", true},    {POOLING_TOKENS, "none", true},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        enum pooling pooling = (enum pooling)((kinds[i].pooling + 1) % 6);
        assert_int_equal(pooling_parse(kinds[i].name, &pooling), 0);
        assert_int_equal(pooling, kinds[i].pooling);
        assert_string_equal(pooling_name(pooling), kinds[i].name);
        assert_int_equal(pooling_reads_all(pooling), kinds[i].reads_all);
    }
}

static void other_names_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", "OFF", "of", "off ", "tokens", "rank", "lastt"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        enum pooling pooling = POOLING_MAX;
        assert_int_equal(pooling_parse(names[i], &pooling), -1);
        assert_int_equal(pooling, POOLING_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_its_name),
        cmocka_unit_test(other_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
