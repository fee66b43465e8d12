/*
 * gate_with against double precision, every tier: the activations and none, a piece of a wide second input.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void gate_with_cases(const struct op_case_visitor *visitor)
{
    static const struct {
        uint32_t columns, wide, offset;
    } shapes[] = {{1, 3, 2},       {13, 40, 27}, {64, 256, 128},
                  {1543, 1600, 5}, {77, 90, 4},  {96, 96, 0}};
    static const enum gate_activation activations[] = {GATE_GELU_TANH, GATE_SILU,  GATE_GELU_TANH,
                                                       GATE_SILU,      GATE_PLAIN, GATE_PLAIN};
    for (uint32_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        struct op_case c = op_case_begin(OP_gate_with, shapes[i].columns, shapes[i].columns);
        c.input_columns[1] = shapes[i].wide;
        c.input_scale = i % 2 == 0 ? 1.0f : 12.0f;
        c.params.gate_with = (struct gate_with_params){activations[i], shapes[i].offset};
        op_case_visit(visitor, &c);
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output);
    const float *y = op_trial_input(trial, 1, output) + c->params.gate_with.offset;
    for (uint32_t i = 0; i < c->output_columns; i++) {
        double v = (double)x[i];
        double gelu = 0.5 * v * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (v + 0.044715 * v * v * v)));
        enum gate_activation activation = c->params.gate_with.activation;
        double silu = v / (1.0 + exp(-v));
        double gate = activation == GATE_SILU ? silu : activation == GATE_PLAIN ? v : gelu;
        expected[i] = gate * (double)y[i];
    }
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(gate_with_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
