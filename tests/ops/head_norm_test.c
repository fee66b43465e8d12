/*
 * head_norm against a double-precision loop, every tier: each head of a slice alone, the other
 * columns untouched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void head_norm_cases(const struct op_case_visitor *visitor)
{
    static const struct head_norm_params params[] = {
        {{0, 4, 256}, 1e-6f, 0.0f}, {{5, 3, 12}, 1e-6f, 0.0f}, {{64, 3, 64}, 1e-5f, 1.0f}};
    static const uint32_t columns[ARRAY_COUNT(params)] = {1024, 50, 300};
    for (uint32_t i = 0; i < ARRAY_COUNT(params); i++) {
        struct op_case c = op_case_begin(OP_head_norm, columns[i], columns[i]);
        op_case_set_norm_weight(&c, params[i].slice.head_dim);
        op_case_add_long_step(&c);
        c.in_place = true;
        c.params.head_norm = params[i];
        op_case_visit(visitor, &c);
        c.weights[0].rows = 0; /* the norm alone */
        c.params.head_norm.weight_offset = 0.0f;
        op_case_visit(visitor, &c);
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const struct head_norm_params *params = &c->params.head_norm;
    const uint32_t head_dim = params->slice.head_dim;
    const float *x = op_trial_input(trial, 0, output);
    bool weighs = c->weights[0].rows > 0;
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] = (double)x[i];
    for (uint32_t h = 0; h < params->slice.heads; h++) {
        double *head = expected + params->slice.offset + h * head_dim;
        double sum = 0.0;
        for (uint32_t d = 0; d < head_dim; d++)
            sum += head[d] * head[d];
        double factor = 1.0 / sqrt(sum / head_dim + (double)params->epsilon);
        for (uint32_t d = 0; d < head_dim; d++)
            head[d] *= factor * (weighs ? (double)op_trial_weight(trial, 0)[d] +
                                              (double)params->weight_offset
                                        : 1.0);
    }
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(head_norm_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
