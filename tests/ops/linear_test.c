/*
 * linear and linear_add against double precision for every weight type, every tier: one to three
 * weights, outputs that fill no group, columns that fill no block (float types), a mix of float and
 * quantized weights, step rows and logit rows; added to a second tensor in place and not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/op_check.h"

/* Float weights and float activations: only sums are rounded. */
static double tolerance(const struct op_case *c)
{
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && c->weights[w].rows > 0; w++) {
        enum ggml_type type = c->weights[w].type;
        if (type != GGML_F32 && type != GGML_F16 && type != GGML_BF16)
            return op_check_tolerance(c);
    }
    return 1e-5;
}

static void linear(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output);
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && c->weights[w].rows > 0; w++) {
        const float *row = op_trial_weight(trial, w);
        for (uint32_t o = 0; o < c->weights[w].rows; o++, row += c->weights[w].columns)
            for (uint32_t i = 0; i < c->weights[w].columns; i++)
                expected[o] += (double)row[i] * (double)x[i];
        expected += c->weights[w].rows;
    }
}

static void linear_add(const struct op_trial *trial, uint32_t output, double *expected)
{
    const float *y = op_trial_input(trial, 1, output);
    linear(trial, output, expected);
    for (uint32_t o = 0; o < op_trial_case(trial)->output_columns; o++)
        expected[o] += (double)y[o];
}

static void test_linear_against_double(void **state)
{
    (void)state;
    op_check_formula(OP_linear, linear, tolerance);
}

static void test_linear_add_against_double(void **state)
{
    (void)state;
    op_check_formula(OP_linear_add, linear_add, tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_linear_against_double),
                                       cmocka_unit_test(test_linear_add_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
