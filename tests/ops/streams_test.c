/*
 * The ops over streams against double precision, every tier: odd widths, and the parts of the
 * output that are kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

static const uint32_t stream_widths[] = {1, 13, 64, 700};

static struct op_case begin_streams(enum op_stem stem, uint32_t x, uint32_t y, uint32_t out)
{
    struct op_case c = op_case_begin(stem, x, out);
    c.input_columns[1] = y;
    return c;
}

void stream_take_cases(const struct op_case_visitor *visitor)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(stream_widths); i++) {
        uint32_t width = stream_widths[i];
        struct op_case c = begin_streams(OP_stream_take, 3 * width, 0, width);
        c.params.stream_take.stream = i % 3;
        op_case_visit(visitor, &c);
    }
}

void stream_mix_cases(const struct op_case_visitor *visitor)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(stream_widths); i++) {
        uint32_t streams = i % 2 == 0 ? 4 : 3, wide = streams * stream_widths[i];
        struct op_case c = begin_streams(OP_stream_mix, wide, streams * streams, wide);
        c.params.stream_mix.streams = streams;
        op_case_visit(visitor, &c);
    }
}

void stream_correct_cases(const struct op_case_visitor *visitor)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(stream_widths); i++) {
        uint32_t streams = i % 2 == 0 ? 4 : 3, wide = streams * stream_widths[i];
        struct op_case c = begin_streams(OP_stream_correct, stream_widths[i], streams, wide);
        c.params.stream_correct = (struct stream_correct_params){streams, i % streams};
        c.input_columns[OP_TRIAL_INPUTS - 1] = wide;
        op_case_visit(visitor, &c);
    }
}

void stream_add_cases(const struct op_case_visitor *visitor)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(stream_widths); i++) {
        struct op_case c = begin_streams(OP_stream_add, stream_widths[i], 0, 4 * stream_widths[i]);
        c.params.stream_add.first = i % 3;
        c.input_columns[OP_TRIAL_INPUTS - 1] = 4 * stream_widths[i];
        op_case_visit(visitor, &c);
    }
}

void stream_match_cases(const struct op_case_visitor *visitor)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(stream_widths); i++) {
        uint32_t width = stream_widths[i];
        struct op_case c = begin_streams(OP_stream_match, 3 * width, width, 2 * width);
        c.params.stream_match = (struct stream_match_params){i % 3, i % 2, i >= 2};
        c.input_scale = i == 1 ? 1e-4f : 1.0f; /* below the least magnitude */
        c.input_columns[OP_TRIAL_INPUTS - 1] = 2 * width;
        op_case_visit(visitor, &c);
    }
}

void stream_cut_cases(const struct op_case_visitor *visitor)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(stream_widths); i++) {
        uint32_t wide = 2 * stream_widths[i];
        struct op_case c = begin_streams(OP_stream_cut, wide, 0, wide);
        c.params.stream_cut = (struct stream_cut_params){2, i == 2 ? 0.0f : 0.75f};
        c.in_place = true;
        op_case_visit(visitor, &c);
    }
}

#define HELD (OP_TRIAL_INPUTS - 1u) /* what the output held before */

static void stream_take(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output);
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] = (double)x[c->params.stream_take.stream * c->output_columns + i];
}

static void stream_mix(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output), *y = op_trial_input(trial, 1, output);
    uint32_t streams = c->params.stream_mix.streams, columns = c->output_columns / streams;
    for (uint32_t j = 0; j < streams; j++)
        for (uint32_t k = 0; k < columns; k++) {
            double sum = (double)x[j * columns + k];
            for (uint32_t i = 0; i < streams; i++)
                sum += (double)y[j * streams + i] * (double)x[i * columns + k];
            expected[j * columns + k] = sum;
        }
}

static void stream_correct(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output), *y = op_trial_input(trial, 1, output);
    const float *held = op_trial_input(trial, HELD, output);
    uint32_t columns = c->input_columns[0];
    const float *active = held + (size_t)c->params.stream_correct.active * columns;
    for (uint32_t j = 0; j < c->params.stream_correct.streams; j++)
        for (uint32_t k = 0; k < columns; k++)
            expected[j * columns + k] = (double)held[j * columns + k] +
                                        (1.0 + (double)y[j]) * ((double)x[k] - (double)active[k]);
}

static void stream_add(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output), *held = op_trial_input(trial, HELD, output);
    uint32_t columns = c->input_columns[0];
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] = (double)held[i] +
                      (i / columns >= c->params.stream_add.first ? (double)x[i % columns] : 0.0);
}

static double mean_square(const float *x, uint32_t columns)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < columns; i++)
        sum += (double)x[i] * (double)x[i] / columns;
    return sum;
}

static void stream_match(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const struct stream_match_params *params = &c->params.stream_match;
    uint32_t columns = c->input_columns[1], at = params->out_stream * columns;
    const float *x = op_trial_input(trial, 0, output) + params->stream * columns;
    const float *y = op_trial_input(trial, 1, output), *held = op_trial_input(trial, HELD, output);
    double factor = sqrt(mean_square(y, columns) / fmax(mean_square(x, columns), 1e-5));
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] = (double)held[i];
    for (uint32_t i = 0; i < columns; i++)
        expected[at + i] = (params->add ? expected[at + i] : 0.0) + factor * (double)x[i];
}

static void stream_cut(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output);
    uint32_t columns = c->output_columns / c->params.stream_cut.streams;
    double mean = 0.0, squares = 0.0;
    for (uint32_t i = 0; i < columns; i++)
        mean += (double)x[i] / columns;
    for (uint32_t i = 0; i < columns; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean) / columns;
    double cut = mean + (double)c->params.stream_cut.deviations * sqrt(squares);
    for (uint32_t i = 0; i < c->output_columns; i++)
        expected[i] = i < columns ? fmax(0.0, (double)x[i] - cut) : (double)x[i];
}

#define STREAM_TEST(stem)                                                                          \
    static void test_##stem(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        op_check_formula(stem##_cases, stem, op_check_tolerance);                                  \
    }
STREAM_TEST(stream_take)
STREAM_TEST(stream_mix)
STREAM_TEST(stream_correct)
STREAM_TEST(stream_add)
STREAM_TEST(stream_match)
STREAM_TEST(stream_cut)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_take),    cmocka_unit_test(test_stream_mix),
        cmocka_unit_test(test_stream_correct), cmocka_unit_test(test_stream_add),
        cmocka_unit_test(test_stream_match),   cmocka_unit_test(test_stream_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
