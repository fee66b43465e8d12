/*
 * layer_norm against a double-precision loop, every tier: odd widths, with and without offset, in
 * place and not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void layer_norm_cases(const struct op_case_visitor *visitor)
{
    static const uint32_t widths[] = {2, 7, 8, 33, 576, 1000};
    for (uint32_t i = 0; i < ARRAY_COUNT(widths); i++) {
        struct op_case c = op_case_begin(OP_layer_norm, widths[i], widths[i]);
        op_case_set_norm_weight(&c, widths[i]);
        op_case_add_long_step(&c);
        c.in_place = i % 2 == 0;
        c.params.layer_norm = (struct layer_norm_params){1e-5f, i % 3 == 0 ? 1.0f : 0.0f};
        op_case_visit(visitor, &c);
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output);
    const float *weight = op_trial_weight(trial, 0);
    double mean = 0.0, squares = 0.0;
    for (uint32_t i = 0; i < c->output_columns; i++)
        mean += (double)x[i] / c->output_columns;
    for (uint32_t i = 0; i < c->output_columns; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    double factor = 1.0 / sqrt(squares / c->output_columns + (double)c->params.layer_norm.epsilon);
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] = ((double)x[i] - mean) * factor *
                      ((double)weight[i] + (double)c->params.layer_norm.weight_offset);
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(layer_norm_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
