/*
 * linear_add against double precision for every weight type, every tier: the product added to a
 * second tensor, in place and not, on step rows and on logit rows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/op_check.h"

/* Float weights meet float activations: nothing is rounded but sums. */
static double tolerance(const struct op_case *c)
{
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && c->weights[w].rows > 0; w++) {
        enum ggml_type type = c->weights[w].type;
        if (type != GGML_F32 && type != GGML_F16 && type != GGML_BF16)
            return op_check_tolerance(c);
    }
    return 1e-5;
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output);
    const float *y = op_trial_input(trial, 1, output);
    const float *row = op_trial_weight(trial, 0);
    for (uint32_t o = 0; o < c->output_columns; o++, row += c->weights[0].columns) {
        expected[o] = (double)y[o];
        for (uint32_t i = 0; i < c->weights[0].columns; i++)
            expected[o] += (double)row[i] * (double)x[i];
    }
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(OP_linear_add, formula, tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
