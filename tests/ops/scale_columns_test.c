/*
 * scale_columns against double precision, every tier: one weight per column, one weight for all.
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
    const float *weight = op_trial_weight(trial, 0);
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] = (double)x[i] * (double)weight[c->weights[0].columns == 1 ? 0 : i];
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(OP_scale_columns, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
