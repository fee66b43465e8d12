/*
 * scale_columns against double precision, every tier: one weight per column, one weight for all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void scale_columns_cases(const struct op_case_visitor *visitor)
{
    static const uint32_t widths[] = {1, 13, 512, 1543};
    for (uint32_t i = 0; i < ARRAY_COUNT(widths); i++) {
        for (int one = 0; one < 2; one++) {
            struct op_case c = op_case_begin(OP_scale_columns, widths[i], widths[i]);
            op_case_set_norm_weight(&c, one ? 1 : widths[i]);
            c.in_place = (i + (uint32_t)one) % 2 == 0;
            op_case_visit(visitor, &c);
        }
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output);
    const float *weight = op_trial_weight(trial, 0);
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] = (double)x[i] * (double)weight[c->weights[0].columns == 1 ? 0 : i];
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(scale_columns_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
