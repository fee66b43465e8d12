/*
 * bias_add against a double-precision loop, every tier: one to three adjacent vectors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void bias_add_cases(const struct op_case_visitor *visitor)
{
    static const uint32_t widths[][OP_WEIGHTS_MAX] = {{1}, {512}, {40, 13}, {576, 192, 192}};
    static const enum ggml_type types[OP_WEIGHTS_MAX] = {GGML_BF16, GGML_F32, GGML_F16};
    for (uint32_t i = 0; i < ARRAY_COUNT(widths); i++) {
        struct op_case c = op_case_begin(OP_bias_add, 0, 0);
        for (uint32_t w = 0; w < OP_WEIGHTS_MAX && widths[i][w] > 0; w++) {
            c.weights[w] = (struct op_trial_weight){types[w], 1, widths[i][w]};
            c.output_columns += widths[i][w];
        }
        c.input_columns[0] = c.output_columns;
        c.in_place = true;
        c.on_logit_rows = i == 1;
        op_case_add_long_step(&c);
        op_case_visit(visitor, &c);
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output);
    uint32_t column = 0;
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && c->weights[w].rows > 0; w++)
        for (uint32_t i = 0; i < c->weights[w].columns; i++, column++)
            expected[column] = (double)x[column] + (double)op_trial_weight(trial, w)[i];
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(bias_add_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
