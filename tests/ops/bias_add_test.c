/*
 * bias_add against a double-precision loop, every tier: one to three adjacent vectors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/op_check.h"

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output);
    uint32_t column = 0;
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && c->weights[w].rows > 0; w++)
        for (uint32_t i = 0; i < c->weights[w].columns; i++, column++)
            expected[column] = (double)x[column] + (double)op_trial_weight(trial, w)[i];
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(OP_bias_add, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
