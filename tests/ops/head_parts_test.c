/*
 * take_heads and join_heads, every tier: parts of heads of odd widths.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

static const struct {
    uint32_t heads;
    uint32_t first; /* of x's columns of a head */
    uint32_t taken;
    uint32_t behind; /* take_heads: columns that follow; join_heads: y's columns of a head */
} parts[] = {{1, 0, 64, 8}, {3, 5, 13, 0}, {16, 64, 128, 3}, {5, 1, 1, 70}};

void take_heads_cases(const struct op_case_visitor *visitor)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(parts); i++) {
        uint32_t heads = parts[i].heads, each = parts[i].first + parts[i].taken + parts[i].behind;
        struct op_case c = op_case_begin(OP_take_heads, heads * each, heads * parts[i].taken);
        c.params.take_heads = (struct take_heads_params){heads, parts[i].first};
        op_case_add_long_step(&c);
        op_case_visit(visitor, &c);
    }
}

void join_heads_cases(const struct op_case_visitor *visitor)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(parts); i++) {
        uint32_t heads = parts[i].heads, behind = parts[i].behind + 1;
        struct op_case c = op_case_begin(OP_join_heads, heads * (parts[i].first + parts[i].taken),
                                         heads * (parts[i].taken + behind));
        c.input_columns[1] = heads * behind;
        c.params.join_heads = (struct join_heads_params){heads, parts[i].first};
        op_case_add_long_step(&c);
        op_case_visit(visitor, &c);
    }
}

static void take_heads(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const struct take_heads_params *p = &c->params.take_heads;
    uint32_t each = c->input_columns[0] / p->heads, taken = c->output_columns / p->heads;
    const float *x = op_trial_input(trial, 0, output);
    for (uint32_t head = 0; head < p->heads; head++)
        for (uint32_t i = 0; i < taken; i++)
            *expected++ = (double)x[head * each + p->first + i];
}

static void join_heads(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const struct join_heads_params *p = &c->params.join_heads;
    uint32_t each = c->input_columns[0] / p->heads, behind = c->input_columns[1] / p->heads;
    const float *x = op_trial_input(trial, 0, output), *y = op_trial_input(trial, 1, output);
    for (uint32_t head = 0; head < p->heads; head++) {
        for (uint32_t i = p->first; i < each; i++)
            *expected++ = (double)x[head * each + i];
        for (uint32_t i = 0; i < behind; i++)
            *expected++ = (double)y[head * behind + i];
    }
}

static void test_take_heads_exact(void **state)
{
    (void)state;
    op_check_formula(take_heads_cases, take_heads, op_check_tolerance);
}

static void test_join_heads_exact(void **state)
{
    (void)state;
    op_check_formula(join_heads_cases, join_heads, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_take_heads_exact),
                                       cmocka_unit_test(test_join_heads_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
