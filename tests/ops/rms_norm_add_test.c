/*
 * rms_norm_add against a double-precision loop, every tier: the norm of one tensor added into
 * another, in place and not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void rms_norm_add_cases(const struct op_case_visitor *visitor)
{
    static const uint32_t widths[] = {1, 7, 8, 33, 640};
    for (uint32_t i = 0; i < ARRAY_COUNT(widths); i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            struct op_case c = op_case_begin(OP_rms_norm_add, widths[i], widths[i]);
            c.input_columns[1] = widths[i];
            op_case_set_norm_weight(&c, widths[i]);
            op_case_add_long_step(&c);
            c.in_place = in_place;
            c.params.rms_norm_add = (struct rms_norm_add_params){1e-6f, 1.0f};
            op_case_visit(visitor, &c);
        }
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const struct rms_norm_add_params *params = &c->params.rms_norm_add;
    const float *x = op_trial_input(trial, 0, output);
    const float *y = op_trial_input(trial, 1, output);
    const float *weight = op_trial_weight(trial, 0);
    double sum = 0.0;
    for (uint32_t i = 0; i < c->output_columns; i++)
        sum += (double)x[i] * (double)x[i];
    double factor = 1.0 / sqrt(sum / c->output_columns + (double)params->epsilon);
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] = (double)y[i] +
                      (double)x[i] * factor * ((double)weight[i] + (double)params->weight_offset);
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(rms_norm_add_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
