/*
 * soft_cap against double precision, every tier: odd widths, inputs from the linear range of tanh()
 * to its saturation, in place and not, scaling alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_check.h"

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output);
    double scale = (double)c->params.soft_cap.scale, cap = (double)c->params.soft_cap.cap;
    for (uint32_t i = 0; i < c->output_columns; i++) {
        double v = scale * (double)x[i];
        expected[i] = cap > 0.0 ? cap * tanh(v / cap) : v;
    }
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(OP_soft_cap, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
