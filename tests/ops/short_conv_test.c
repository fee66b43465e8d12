/*
 * short_conv against a double-precision loop over the whole sequence, every tier: both forms, two
 * to eight taps, with a bias and columns in the middle of a row, in steps shorter and longer than the state.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

void short_conv_cases(const struct op_case_visitor *visitor)
{
    static const struct {
        enum short_conv_form form;
        uint32_t channels;
        uint32_t taps;
        uint32_t beside; /* columns behind those of the op */
        enum ggml_type type;
        uint32_t offset;
        bool bias;
    } shapes[] = {{SHORT_CONV_GATED, 288, 3, 0, GGML_F32, 0, false},
                  {SHORT_CONV_SILU, 320, 4, 7, GGML_BF16, 0, false},
                  {SHORT_CONV_SILU, 37, 2, 0, GGML_F16, 0, false},
                  {SHORT_CONV_SILU, 300, 4, 19, GGML_F32, 13, true},
                  {SHORT_CONV_SILU, 21, 3, 8, GGML_BF16, 8, true},
                  {SHORT_CONV_GATED, 530, 8, 0, GGML_F32, 0, false}};
    for (uint32_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        uint32_t copies = shapes[i].form == SHORT_CONV_GATED ? 3 : 1;
        struct op_case c = op_case_begin(
            OP_short_conv, copies * shapes[i].channels + shapes[i].beside, shapes[i].channels);
        op_case_set_state_steps(&c);
        c.weights[0] = (struct op_trial_weight){shapes[i].type, shapes[i].channels, shapes[i].taps};
        c.params.short_conv = (struct short_conv_params){
            .form = shapes[i].form, .layer = 1, .offset = shapes[i].offset};
        if (shapes[i].bias)
            c.weights[1] = (struct op_trial_weight){GGML_F32, 1, shapes[i].channels};
        op_case_visit(visitor, &c);
        c.defers = true;
        op_case_visit(visitor, &c);
    }
}

static void formula(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    struct op_trial_row row = op_trial_row(trial, output);
    bool gated = c->params.short_conv.form == SHORT_CONV_GATED;
    uint32_t channels = c->output_columns, taps = c->weights[0].columns;
    const float *x = op_trial_input(trial, 0, output);
    for (uint32_t channel = 0; channel < channels; channel++) {
        double sum = 0;
        for (uint32_t back = 0; back < taps && back <= row.position; back++) {
            const float *at = op_trial_input_at(trial, 0, row.sequence, row.position - back);
            double u = (double)at[c->params.short_conv.offset + channel];
            if (gated)
                u *= (double)at[2 * channels + channel];
            sum += u * (double)op_trial_weight(trial, 0)[channel * taps + taps - 1 - back];
        }
        if (c->weights[1].rows > 0)
            sum += (double)op_trial_weight(trial, 1)[channel];
        expected[channel] = gated ? (double)x[channels + channel] * sum : sum / (1 + exp(-sum));
    }
}

static void test_against_double(void **state)
{
    (void)state;
    op_check_formula(short_conv_cases, formula, op_check_tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
