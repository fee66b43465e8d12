/*
 * gate_with against double precision, every tier: both activations, a piece of a wide second input.
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
    const float *y = op_trial_input(trial, 1, output) + c->params.gate_with.offset;
    for (uint32_t i = 0; i < c->output_columns; i++) {
        double v = (double)x[i];
        double gelu = 0.5 * v * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (v + 0.044715 * v * v * v)));
        bool silu = c->params.gate_with.activation == GATE_SILU;
        expected[i] = (silu ? v / (1.0 + exp(-v)) : gelu) * (double)y[i];
    }
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(OP_gate_with, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
