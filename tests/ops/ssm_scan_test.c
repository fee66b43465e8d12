/*
 * ssm_scan against a double-precision loop over the whole sequence from position 0 on, every tier:
 * drawn sizes, one group and several, rates and their logarithms, bounded steps, steps of one row and of
 * many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"
#include "tests/support/test_random.h"

#define DRAWN 4u

static void visit(const struct op_case_visitor *visitor, struct ssm_scan_params p, uint32_t beside)
{
    uint32_t values = p.heads * p.head_dim;
    struct op_case c = op_case_begin(OP_ssm_scan, values + 2 * p.groups * p.state, values);
    c.input_columns[1] = p.steps_offset + p.heads + beside;
    op_case_set_state_steps(&c);
    if (!p.rate_is_log) /* a random rate may be positive, and then matrices grow */
        memset(c.steps + 3, 0, sizeof c.steps - 3 * sizeof c.steps[0]);
    c.weights[0] = (struct op_trial_weight){GGML_F32, 1, p.heads};
    c.weights[1] = (struct op_trial_weight){GGML_BF16, 1, p.heads};
    c.weights[2] = (struct op_trial_weight){GGML_F16, 1, p.heads};
    c.params.ssm_scan = p;
    op_case_visit(visitor, &c);
    c.defers = true;
    op_case_visit(visitor, &c);
}

void ssm_scan_cases(const struct op_case_visitor *visitor)
{
    static const struct ssm_scan_params params[] = {
        {4, 17, 2, 24, 1, 5, true, 0.0f, INFINITY},
        {6, 5, 1, 40, 1, 0, true, 0.5f, 0.875f},
        {1, 64, 1, 33, 1, 7, false, 0.0f, INFINITY},
        {8, 16, 8, 16, 1, 0, true, 0.0f, 0.75f},
    };
    struct test_random random = {27};
    for (uint32_t i = 0; i < ARRAY_COUNT(params); i++)
        visit(visitor, params[i], i);
    for (uint32_t i = 0; i < DRAWN; i++) {
        uint32_t groups = 1 + test_random_below(&random, 3);
        visit(visitor,
              (struct ssm_scan_params){.heads = groups * (1 + test_random_below(&random, 3)),
                                       .head_dim = 1 + test_random_below(&random, 70),
                                       .groups = groups,
                                       .state = 1 + test_random_below(&random, 70),
                                       .layer = 1,
                                       .steps_offset = test_random_below(&random, 9),
                                       .rate_is_log = true,
                                       .least_step = 0.0f,
                                       .most_step = INFINITY},
              test_random_below(&random, 3));
    }
}

struct head {
    const struct ssm_scan_params *p;
    uint32_t number;
    double rate;
    double step_bias;
    double skip;
};

/* Moves `matrix` [head_dim, state] by a row and computes its output. */
static void move(const struct head *h, const float *x, const float *y, double *matrix, double *out)
{
    const struct ssm_scan_params *p = h->p;
    uint32_t group = h->number / (p->heads / p->groups);
    const float *b = x + p->heads * p->head_dim + group * p->state;
    const float *c = b + p->groups * p->state;
    double step = log1p(exp((double)y[p->steps_offset + h->number] + h->step_bias));
    step = fmin(fmax(step, (double)p->least_step), (double)p->most_step);
    for (uint32_t d = 0; d < p->head_dim; d++) {
        double value = (double)x[h->number * p->head_dim + d];
        out[d] = h->skip * value;
        for (uint32_t s = 0; s < p->state; s++) {
            double *moved = &matrix[d * p->state + s];
            *moved = exp(h->rate * step) * *moved + step * value * (double)b[s];
            out[d] += *moved * (double)c[s];
        }
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct ssm_scan_params *p = &op_trial_case(trial)->params.ssm_scan;
    struct op_trial_row row = op_trial_row(trial, output);
    size_t floats = (size_t)p->head_dim * p->state;
    double *matrix = must_alloc(floats, sizeof *matrix);
    for (uint32_t number = 0; number < p->heads; number++) {
        double rate = (double)op_trial_weight(trial, 0)[number];
        struct head h = {p, number, p->rate_is_log ? -exp(rate) : rate,
                         (double)op_trial_weight(trial, 1)[number],
                         (double)op_trial_weight(trial, 2)[number]};
        memset(matrix, 0, floats * sizeof *matrix);
        for (uint32_t at = 0; at <= row.position; at++)
            move(&h, op_trial_input_at(trial, 0, row.sequence, at),
                 op_trial_input_at(trial, 1, row.sequence, at), matrix,
                 expected + number * p->head_dim);
    }
    free(matrix);
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(ssm_scan_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
