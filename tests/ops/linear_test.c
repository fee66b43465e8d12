/*
 * linear and linear_add against double precision for every weight type, every tier: one to three
 * weights, outputs that fill no group, columns that fill no block (float types), a mix of float and
 * quantized weights, step rows and logit rows; added to a second tensor in place and not.
 */
// tags: arm
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_check.h"

static struct op_case begin_linear(enum op_stem stem, uint32_t columns,
                                   const enum ggml_type types[OP_WEIGHTS_MAX],
                                   const uint32_t outputs[OP_WEIGHTS_MAX])
{
    struct op_case c = op_case_begin(stem, columns, 0);
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && outputs[w] > 0; w++) {
        c.weights[w] = (struct op_trial_weight){types[w], outputs[w], columns};
        c.output_columns += outputs[w];
    }
    if (stem == OP_linear_add)
        c.input_columns[1] = c.output_columns;
    return c;
}

static void linear_type_cases(const struct op_case_visitor *visitor, enum ggml_type type)
{
    static const struct {
        uint32_t columns;
        uint32_t outputs[OP_WEIGHTS_MAX];
        bool on_logit_rows;
        bool long_step;
    } shapes[] = {
        {256, {48}, true, false}, {512, {17, 16, 1}, false, false}, {256, {133, 5}, false, true}};
    const enum ggml_type types[OP_WEIGHTS_MAX] = {type, type, type};
    for (uint32_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        struct op_case c = begin_linear(OP_linear, shapes[i].columns, types, shapes[i].outputs);
        c.on_logit_rows = shapes[i].on_logit_rows;
        c.wanted_every = c.on_logit_rows ? 3 : 1;
        if (shapes[i].long_step)
            op_case_add_long_step(&c);
        op_case_visit(visitor, &c);
    }
}

void linear_cases(const struct op_case_visitor *visitor)
{
    static const enum ggml_type mixed[] = {GGML_Q5_0, GGML_F32, GGML_Q6_K};
    static const enum ggml_type floats[] = {GGML_BF16, GGML_F32, GGML_F16};
    for (int type = 0; type < GGML_TYPE_END; type++)
        if (ggml_type_block((enum ggml_type)type).elements != 0)
            linear_type_cases(visitor, (enum ggml_type)type);
    struct op_case c = begin_linear(OP_linear, 256, mixed, (const uint32_t[]){40, 16, 24});
    op_case_visit(visitor, &c);
    c = begin_linear(OP_linear, 45, floats, (const uint32_t[]){19, 3, 7});
    op_case_visit(visitor, &c);
    c = begin_linear(OP_linear, 1, floats, (const uint32_t[]){16, 0, 0});
    op_case_visit(visitor, &c);
}

void linear_add_cases(const struct op_case_visitor *visitor)
{
    for (int t = 0; t < GGML_TYPE_END; t++) {
        const enum ggml_type types[OP_WEIGHTS_MAX] = {(enum ggml_type)t};
        if (ggml_type_block(types[0]).elements == 0)
            continue;
        struct op_case c = begin_linear(OP_linear_add, 512, types, (const uint32_t[]){48, 0, 0});
        op_case_visit(visitor, &c);
        c = begin_linear(OP_linear_add, 256, types, (const uint32_t[]){133, 0, 0});
        c.in_place = true;
        op_case_add_long_step(&c);
        op_case_visit(visitor, &c);
        c = begin_linear(OP_linear_add, 256, types, (const uint32_t[]){21, 0, 0});
        c.in_place = true;
        c.on_logit_rows = true;
        op_case_visit(visitor, &c);
    }
}

/* Float weights and float activations: only sums are rounded. */
static double tolerance(const struct op_case *c)
{
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && c->weights[w].rows > 0; w++) {
        enum ggml_type type = c->weights[w].type;
        bool narrow = type == GGML_BF16 || type == GGML_F8_128 || type == GGML_F8_32 ||
                      type == GGML_NF4_64 || type == GGML_FP4_64;
        if (type != GGML_F32 && type != GGML_F16 && !narrow)
            return op_check_tolerance(c);
    }
    return 1e-5;
}

static void linear(const struct op_trial *trial, uint32_t output, double *expected)
{
    const struct op_case *c = op_trial_case(trial);
    const float *x = op_trial_input(trial, 0, output);
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && c->weights[w].rows > 0; w++) {
        const float *row = op_trial_weight(trial, w);
        for (uint32_t o = 0; o < c->weights[w].rows; o++, row += c->weights[w].columns)
            for (uint32_t i = 0; i < c->weights[w].columns; i++)
                expected[o] += (double)row[i] * (double)x[i];
        expected += c->weights[w].rows;
    }
}

static void linear_add(const struct op_trial *trial, uint32_t output, double *expected)
{
    const float *y = op_trial_input(trial, 1, output);
    linear(trial, output, expected);
    for (uint32_t o = 0; o < op_trial_case(trial)->output_columns; o++)
        expected[o] += (double)y[o];
}

static void test_linear_against_double(void **state)
{
    (void)state;
    op_check_formula(linear_cases, linear, tolerance);
}

static void test_linear_add_against_double(void **state)
{
    (void)state;
    op_check_formula(linear_add_cases, linear_add, tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_linear_against_double),
                                       cmocka_unit_test(test_linear_add_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
