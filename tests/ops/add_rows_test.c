/*
 * add_rows against double precision, every tier: in place and not, scaled and not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_check.h"

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
    op_check_formula(OP_add_rows, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
