/*
 * gate against double precision, every tier: both activations, odd widths, inputs from tiny to the
 * overflow of exp().
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void gate_cases(const struct op_case_visitor *visitor)
{
    static const uint32_t widths[] = {1, 13, 512, 1543};
    static const float scales[] = {1.0f, 12.0f, 300.0f}; /* to where exp() overflows */
    for (uint32_t i = 0; i < ARRAY_COUNT(widths); i++) {
        for (uint32_t s = 0; s < ARRAY_COUNT(scales); s++) {
            struct op_case c = op_case_begin(OP_gate, 2 * widths[i], widths[i]);
            if (widths[i] < 512)
                op_case_add_long_step(&c);
            c.input_scale = scales[s];
            c.params.gate.activation = GATE_SILU;
            op_case_visit(visitor, &c);
            c.params.gate.activation = GATE_GELU_TANH;
            op_case_visit(visitor, &c);
        }
    }
}

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
    op_check_formula(gate_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
