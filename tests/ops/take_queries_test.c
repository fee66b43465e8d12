/*
 * take_queries, every tier: the queries are packed, and the other columns follow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

static const struct take_queries_params gated_heads[] = {{4, 16}, {3, 13}, {1, 96}};

void take_queries_cases(const struct op_case_visitor *visitor)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(gated_heads); i++) {
        uint32_t queries = gated_heads[i].heads * gated_heads[i].head_dim, rest = 64 * (2 - i);
        struct op_case c = op_case_begin(OP_take_queries, 2 * queries + rest, queries + rest);
        c.params.take_queries = gated_heads[i];
        op_case_add_long_step(&c);
        op_case_visit(visitor, &c);
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const struct take_queries_params *p = &c->params.take_queries;
    const float *x = op_trial_input(trial, 0, output);
    uint32_t at = 0;
    for (uint32_t head = 0; head < p->heads; head++, x += 2 * p->head_dim)
        for (uint32_t d = 0; d < p->head_dim; d++)
            expected[at++] = (double)x[d];
    for (; at < c->output_columns; at++)
        expected[at] = (double)*x++;
}

static void test_exact(void **state)
{
    (void)state;
    op_check_formula(take_queries_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
