/*
 * gather_rows, every tier: bit-exact copies of the step rows whose logits are computed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/op_check.h"

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const float *x = op_trial_input(trial, 0, output);
    for (uint32_t i = 0; i < op_trial_case(trial)->output_columns; i++)
        expected[i] = (double)x[i];
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(OP_gather_rows, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
