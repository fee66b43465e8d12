/*
 * group_norm_gate against a double-precision loop, every tier: groups of odd sizes and of a whole row,
 * gates in the middle of a row, the norm after the gates, before them, and none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void group_norm_gate_cases(const struct op_case_visitor *visitor)
{
    static const struct column_slice gates[] = {{0, 4, 32}, {5, 3, 13}, {64, 2, 160}, {3, 1, 1500}};
    for (uint32_t i = 0; i < 3 * ARRAY_COUNT(gates); i++) {
        struct column_slice slice = gates[i / 3];
        uint32_t columns = slice.heads * slice.head_dim;
        struct op_case c = op_case_begin(OP_group_norm_gate, columns, columns);
        c.input_columns[1] = slice.offset + columns + i;
        if (i % 3 > 0)
            op_case_set_norm_weight(&c, columns);
        if (columns < 1000)
            op_case_add_long_step(&c);
        c.params.group_norm_gate = (struct group_norm_gate_params){slice, i % 3 == 2, 1e-6f};
        op_case_visit(visitor, &c);
    }
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* As the op reads column `c` before its norm. */
static double before_norm(const struct group_norm_gate_params *p, const float *x,
                          const float *gates, uint32_t c)
{
    return p->norm_first ? (double)x[c] : (double)x[c] * silu((double)gates[c]);
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const struct group_norm_gate_params *p = &c->params.group_norm_gate;
    const float *x = op_trial_input(trial, 0, output);
    const float *gates = op_trial_input(trial, 1, output) + p->gates.offset;
    uint32_t wide = p->gates.head_dim;
    for (uint32_t at = 0; at < c->output_columns; at++) {
        expected[at] = (double)x[at] * silu((double)gates[at]);
        if (c->weights[0].rows == 0)
            continue;
        double squares = 0;
        for (uint32_t i = at / wide * wide; i < (at / wide + 1) * wide; i++)
            squares += pow(before_norm(p, x, gates, i), 2);
        expected[at] *=
            (double)op_trial_weight(trial, 0)[at] / sqrt(squares / wide + (double)p->epsilon);
    }
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(group_norm_gate_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
