/*
 * gather_rows, every tier: bit-exact copies of the step rows whose logits are computed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void gather_rows_cases(const struct op_case_visitor *visitor)
{
    for (uint32_t every = 1; every <= 4; every += 3) {
        struct op_case c = op_case_begin(OP_gather_rows, 37, 37);
        op_case_add_long_step(&c);
        c.wanted_every = every;
        op_case_visit(visitor, &c);
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const float *x = op_trial_input(trial, 0, output);
    for (uint32_t i = 0; i < op_trial_case(trial)->output_columns; i++)
        expected[i] = (double)x[i];
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(gather_rows_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
