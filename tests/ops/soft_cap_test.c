/*
 * soft_cap against double precision, every tier: odd widths, inputs from the linear range of tanh()
 * to its saturation, in place and not, scaling alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void soft_cap_cases(const struct op_case_visitor *visitor)
{
    static const struct {
        uint32_t columns;
        float input_scale; /* from where tanh() is a line to where it is flat */
        struct soft_cap_params params;
    } cases[] = {
        {1, 40.0f, {0.5f, 30.0f}},    {13, 0.1f, {1.0f, 30.0f}}, {13, 9.0f, {0.25f, 0.0f}},
        {512, 3000.0f, {1.0f, 5.0f}}, {512, 9.0f, {0.25f, 0}},   {5003, 40.0f, {0.5f, 30.0f}},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct op_case c = op_case_begin(OP_soft_cap, cases[i].columns, cases[i].columns);
        c.in_place = i % 2 == 0;
        c.on_logit_rows = i % 3 == 1;
        c.wanted_every = c.on_logit_rows ? 3 : 1;
        c.input_scale = cases[i].input_scale;
        c.params.soft_cap = cases[i].params;
        op_case_visit(visitor, &c);
    }
}

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
    op_check_formula(soft_cap_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
