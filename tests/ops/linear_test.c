/*
 * linear against double precision for every weight type: one to three weights, outputs that fill no
 * group, odd row counts, columns that fill no block (float types), and a mix of float and quantized
 * weights.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/op_fixture.h"

struct shape {
    uint32_t step_rows;
    uint32_t columns;
    uint32_t outputs[OP_WEIGHTS_MAX]; /* 0: no such weight */
};

/* x [columns] times the weight's rows, appended to expected at `at`; returns the next place. */
static uint32_t append_products(struct op_fixture *f, plan_weight_id weight, const float *x,
                                uint32_t columns, uint32_t outputs, double *expected, uint32_t at)
{
    float *row = malloc(columns * sizeof *row);
    for (uint32_t o = 0; o < outputs; o++, at++) {
        op_fixture_weight_row(f, weight, o, row);
        for (uint32_t c = 0; c < columns; c++)
            expected[at] += (double)row[c] * (double)x[c];
    }
    free(row);
    return at;
}

static double tolerance(enum ggml_type type)
{
    bool is_float = type == GGML_F32 || type == GGML_F16 || type == GGML_BF16;
    return is_float ? 1e-5 : (double)op_stem_tolerance(OP_linear);
}

static void check(enum cpu_tier tier, const enum ggml_type *types, const struct shape *shape)
{
    struct op_fixture *f = op_fixture_create(shape->columns + types[0]);
    plan_weight_id weights[OP_WEIGHTS_MAX] = {PLAN_NONE, PLAN_NONE, PLAN_NONE};
    uint32_t outputs = 0;
    double loosest = 0.0;
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && shape->outputs[w] > 0; w++) {
        weights[w] = op_fixture_weight(f, types[w], shape->outputs[w], shape->columns);
        outputs += shape->outputs[w];
        loosest = fmax(loosest, tolerance(types[w]));
    }
    plan_tensor_id x = op_fixture_tensor(f, PLAN_ROWS_STEP, shape->columns);
    plan_tensor_id out = op_fixture_tensor(f, PLAN_ROWS_STEP, outputs);
    op_fixture_append(f, (struct plan_op){.stem = OP_linear,
                                          .inputs = {x, PLAN_NONE},
                                          .output = out,
                                          .weights = {weights[0], weights[1], weights[2]}});
    if (op_fixture_open(f, tier, 2)) {
        op_fixture_fill(f, x, shape->step_rows);
        op_fixture_poison(f, out, shape->step_rows);
        op_fixture_step(f, &(struct op_fixture_part){0, shape->step_rows, 0}, 1, NULL, NULL, 0);
        for (uint32_t r = 0; r < shape->step_rows; r++) {
            double *expected = calloc(outputs, sizeof *expected);
            uint32_t at = 0;
            for (uint32_t w = 0; w < OP_WEIGHTS_MAX && shape->outputs[w] > 0; w++)
                at = append_products(f, weights[w], op_fixture_row(f, x, r), shape->columns,
                                     shape->outputs[w], expected, at);
            op_fixture_expect_close(ggml_type_name(types[0]), op_fixture_row(f, out, r), expected,
                                    outputs, loosest);
            free(expected);
        }
        op_fixture_close(f);
    }
    op_fixture_destroy(f);
}

static void test_every_type(void **state)
{
    (void)state;
    static const struct shape shapes[] = {{1, 256, {48}}, {7, 512, {17, 16, 1}}, {3, 256, {33, 5}}};
    for (uint32_t tier = 0; tier < OP_FIXTURE_TIERS; tier++)
        for (int t = 0; t <= GGML_BF16; t++) {
            enum ggml_type type = (enum ggml_type)t;
            if (ggml_type_block(type).elements == 0)
                continue;
            for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
                check(op_fixture_tier(tier), (enum ggml_type[]){type, type, type}, &shapes[i]);
        }
}

static void test_columns_that_fill_no_block(void **state)
{
    (void)state;
    static const struct shape odd = {5, 45, {19, 3}};
    static const struct shape narrow = {2, 1, {16}};
    for (uint32_t tier = 0; tier < OP_FIXTURE_TIERS; tier++) {
        check(op_fixture_tier(tier), (enum ggml_type[]){GGML_F32, GGML_F16}, &odd);
        check(op_fixture_tier(tier), (enum ggml_type[]){GGML_BF16}, &narrow);
    }
}

static void test_mixed_weights(void **state)
{
    (void)state;
    static const struct shape shape = {6, 256, {40, 16, 24}};
    for (uint32_t tier = 0; tier < OP_FIXTURE_TIERS; tier++)
        check(op_fixture_tier(tier), (enum ggml_type[]){GGML_Q5_0, GGML_F32, GGML_Q6_K}, &shape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_columns_that_fill_no_block),
        cmocka_unit_test(test_mixed_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
