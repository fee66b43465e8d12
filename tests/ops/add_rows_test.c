/*
 * add_rows against double precision, every tier: in place and not, scaled and not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void add_rows_cases(const struct op_case_visitor *visitor)
{
    static const uint32_t widths[] = {1, 13, 512, 1543};
    for (uint32_t i = 0; i < ARRAY_COUNT(widths); i++) {
        struct op_case c = op_case_begin(OP_add_rows, widths[i], widths[i]);
        c.input_columns[1] = widths[i];
        c.in_place = i % 2 == 0;
        c.params.add_rows.scale = i == 0 ? 1.0f : 0.70710678f;
        op_case_visit(visitor, &c);
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output);
    const float *y = op_trial_input(trial, 1, output);
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] = (double)c->params.add_rows.scale * ((double)x[i] + (double)y[i]);
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(add_rows_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
