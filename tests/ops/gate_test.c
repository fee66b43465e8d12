/*
 * gate against double precision, every tier: both activations, odd widths, inputs from tiny to the
 * overflow of exp().
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_check.h"

static double activate(enum gate_activation activation, double v)
{
    if (activation == GATE_SILU)
        return v / (1.0 + exp(-v));
    return 0.5 * v * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (v + 0.044715 * v * v * v)));
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output);
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] =
            activate(c->params.gate.activation, (double)x[i]) * (double)x[c->output_columns + i];
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(OP_gate, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
