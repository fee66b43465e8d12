/*
 * gate_heads against a double-precision loop, every tier: in place and not, gates up to the
 * overflow of exp().
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

static const struct gate_heads_params gated_heads[] = {{4, 16}, {3, 13}, {1, 96}};

void gate_heads_cases(const struct op_case_visitor *visitor)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(gated_heads); i++) {
        uint32_t columns = gated_heads[i].heads * gated_heads[i].head_dim;
        struct op_case c = op_case_begin(OP_gate_heads, 2 * columns + 7 * i, columns);
        c.input_columns[1] = columns;
        c.input_scale = i == 2 ? 200.0f : 2.0f;
        c.in_place = i != 1;
        c.params.gate_heads = gated_heads[i];
        op_case_add_long_step(&c);
        op_case_visit(visitor, &c);
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct gate_heads_params *p = &op_trial_case(trial)->params.gate_heads;
    const float *x = op_trial_input(trial, 0, output);
    const float *y = op_trial_input(trial, 1, output);
    for (uint32_t head = 0; head < p->heads; head++)
        for (uint32_t d = 0; d < p->head_dim; d++)
            expected[head * p->head_dim + d] =
                (double)y[head * p->head_dim + d] /
                (1 + exp(-(double)x[(2 * head + 1) * p->head_dim + d]));
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(gate_heads_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
