/*
 * head_norm_gate against a double-precision loop, every tier: heads of odd sizes, gates in the
 * middle of a row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void head_norm_gate_cases(const struct op_case_visitor *visitor)
{
    static const struct column_slice gates[] = {{0, 4, 32}, {5, 3, 13}, {64, 2, 160}};
    for (uint32_t i = 0; i < ARRAY_COUNT(gates); i++) {
        uint32_t columns = gates[i].heads * gates[i].head_dim;
        struct op_case c = op_case_begin(OP_head_norm_gate, columns, columns);
        c.input_columns[1] = gates[i].offset + columns + i;
        op_case_set_norm_weight(&c, gates[i].head_dim);
        op_case_add_long_step(&c);
        c.params.head_norm_gate = (struct head_norm_gate_params){gates[i], 1e-6f};
        op_case_visit(visitor, &c);
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct head_norm_gate_params *p = &op_trial_case(trial)->params.head_norm_gate;
    const float *x = op_trial_input(trial, 0, output);
    const float *gates = op_trial_input(trial, 1, output) + p->gates.offset;
    uint32_t dim = p->gates.head_dim;
    for (uint32_t head = 0; head < p->gates.heads; head++) {
        double squares = 0;
        for (uint32_t d = 0; d < dim; d++)
            squares += (double)x[head * dim + d] * (double)x[head * dim + d];
        for (uint32_t d = 0; d < dim; d++) {
            double gate = (double)gates[head * dim + d];
            expected[head * dim + d] =
                (double)x[head * dim + d] / sqrt(squares / dim + (double)p->epsilon) *
                (double)op_trial_weight(trial, 0)[d] * gate / (1 + exp(-gate));
        }
    }
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(head_norm_gate_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
