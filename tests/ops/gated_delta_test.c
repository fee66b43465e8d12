/*
 * gated_delta against a double-precision loop over the whole sequence from position 0 on, every
 * tier: several value heads per key head in both orders, rates and their logarithms, steps of
 * one row and of many.
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

void gated_delta_cases(const struct op_case_visitor *visitor)
{
    static const struct gated_delta_params params[] = {
        {2, 4, 24, 17, 1, false, true},
        {3, 6, 5, 40, 1, true, true},
        {1, 1, 64, 33, 1, false, true},
        {2, 2, 16, 16, 1, true, false},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(params); i++) {
        const struct gated_delta_params *p = &params[i];
        uint32_t values = p->value_heads * p->value_dim;
        struct op_case c =
            op_case_begin(OP_gated_delta, 2 * p->key_heads * p->key_dim + values, values);
        c.input_columns[1] = 2 * p->value_heads;
        op_case_set_state_steps(&c);
        if (!p->rate_is_log) /* a random rate may be positive, and then matrices grow */
            memset(c.steps + 3, 0, sizeof c.steps - 3 * sizeof c.steps[0]);
        c.weights[0] = (struct op_trial_weight){GGML_F32, 1, p->value_heads};
        c.weights[1] = (struct op_trial_weight){GGML_BF16, 1, p->value_heads};
        c.params.gated_delta = *p;
        op_case_visit(visitor, &c);
        c.defers = true;
        op_case_visit(visitor, &c);
    }
}

struct head {
    const struct gated_delta_params *p;
    uint32_t number;
    uint32_t key_head;
    double rate;
    double time_bias;
};

static void unit(const float *x, uint32_t count, double factor, double *out)
{
    double squares = 0;
    for (uint32_t i = 0; i < count; i++)
        squares += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; i < count; i++)
        out[i] = (double)x[i] * factor / sqrt(squares + 1e-6);
}

/* Updates `matrix` [value_dim, key_dim] by a row and computes its output. */
static void move(const struct head *h, const float *x, const float *y, double *matrix, double *out)
{
    double query[64], key[64];
    uint32_t kd = h->p->key_dim, vd = h->p->value_dim, keys = h->p->key_heads * kd;
    must(kd <= 64);
    unit(x + h->key_head * kd, kd, 1 / sqrt(kd), query);
    unit(x + keys + h->key_head * kd, kd, 1, key);
    double beta = 1 / (1 + exp(-(double)y[h->number]));
    double alpha = (double)y[h->p->value_heads + h->number] + h->time_bias;
    double decay = exp(h->rate * log1p(exp(alpha)));
    for (uint32_t v = 0; v < vd; v++) {
        double *row = matrix + (size_t)v * kd, recalled = 0;
        for (uint32_t k = 0; k < kd; k++)
            recalled += (row[k] *= decay) * key[k];
        double correction = ((double)x[2 * keys + h->number * vd + v] - recalled) * beta;
        out[v] = 0;
        for (uint32_t k = 0; k < kd; k++)
            out[v] += (row[k] += key[k] * correction) * query[k];
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct gated_delta_params *p = &op_trial_case(trial)->params.gated_delta;
    struct op_trial_row row = op_trial_row(trial, output);
    size_t floats = (size_t)p->key_dim * p->value_dim;
    double *matrix = must_alloc(floats, sizeof *matrix);
    for (uint32_t number = 0; number < p->value_heads; number++) {
        double rate = (double)op_trial_weight(trial, 0)[number];
        struct head h = {p, number, number % p->key_heads, p->rate_is_log ? -exp(rate) : rate,
                         (double)op_trial_weight(trial, 1)[number]};
        if (!p->heads_alternate)
            h.key_head = number / (p->value_heads / p->key_heads);
        memset(matrix, 0, floats * sizeof *matrix);
        for (uint32_t at = 0; at <= row.position; at++)
            move(&h, op_trial_input_at(trial, 0, row.sequence, at),
                 op_trial_input_at(trial, 1, row.sequence, at), matrix,
                 expected + number * p->value_dim);
    }
    free(matrix);
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(gated_delta_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
