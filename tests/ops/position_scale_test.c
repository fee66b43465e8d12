/*
 * position_scale against a double-precision loop, every tier: positions before, at and far after
 * the first period; columns outside the slice are unchanged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void position_scale_cases(const struct op_case_visitor *visitor)
{
    static const struct position_scale_params params[] = {
        {{0, 4, 64}, 16384, 0.1f}, {{5, 3, 13}, 7, 0.37f}, {{3, 1, 200}, 1, -0.25f}};
    static const uint32_t first_positions[ARRAY_COUNT(params)] = {16380, 0, 250000};
    for (uint32_t i = 0; i < ARRAY_COUNT(params); i++) {
        struct op_case c = op_case_begin(OP_position_scale, 300, 300);
        op_case_add_long_step(&c);
        c.in_place = true;
        c.params.position_scale = params[i];
        c.first_positions[0] = first_positions[i];
        c.first_positions[1] = 5;
        op_case_visit(visitor, &c);
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const struct position_scale_params *params = &c->params.position_scale;
    const float *x = op_trial_input(trial, 0, output);
    double periods = floor((double)op_trial_row(trial, output).position / params->period_tokens);
    double factor = 1.0 + (double)params->beta * log(1.0 + periods);
    uint32_t end = params->slice.offset + params->slice.heads * params->slice.head_dim;
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] = (double)x[i] * (i >= params->slice.offset && i < end ? factor : 1.0);
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(position_scale_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
