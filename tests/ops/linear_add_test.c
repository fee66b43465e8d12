/*
 * linear_add against double precision for every weight type: the product added to a second tensor,
 * in place and not, on step rows and on logit rows.
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
    return is_float ? 1e-5 : (double)op_stem_tolerance(OP_linear_add);
}

static void check(enum ggml_type type, const struct shape *shape, bool in_place)
{
    static const uint32_t wanted[] = {0, 1, 2, 3, 4, 5, 6};
    uint32_t outputs = shape->outputs[0];
    struct op_fixture *f = op_fixture_create(type);
    enum plan_rows kind = in_place ? PLAN_ROWS_LOGITS : PLAN_ROWS_STEP;
    plan_weight_id weight = op_fixture_weight(f, type, outputs, shape->columns);
    plan_tensor_id x = op_fixture_tensor(f, kind, shape->columns);
    plan_tensor_id y = op_fixture_tensor(f, kind, outputs);
    plan_tensor_id out = in_place ? y : op_fixture_tensor(f, kind, outputs);
    op_fixture_append(f, (struct plan_op){.stem = OP_linear_add,
                                          .inputs = {x, y},
                                          .output = out,
                                          .weights = {weight, PLAN_NONE, PLAN_NONE}});
    assert_true(op_fixture_open(f, CPU_TIER_BEST, 2));
    op_fixture_fill(f, x, shape->step_rows);
    op_fixture_poison(f, out, shape->step_rows);
    op_fixture_fill(f, y, shape->step_rows);
    double *expected = calloc(shape->step_rows * outputs, sizeof *expected);
    for (uint32_t r = 0; r < shape->step_rows; r++) {
        for (uint32_t o = 0; o < outputs; o++)
            expected[r * outputs + o] = (double)op_fixture_row(f, y, r)[o];
        append_products(f, weight, op_fixture_row(f, x, r), shape->columns, outputs, expected,
                        r * outputs);
    }
    op_fixture_step(f, &(struct op_fixture_part){0, shape->step_rows, 0}, 1, NULL, wanted,
                    shape->step_rows);
    for (uint32_t r = 0; r < shape->step_rows; r++)
        op_fixture_expect_close(ggml_type_name(type), op_fixture_row(f, out, r),
                                expected + r * outputs, outputs, tolerance(type));
    free(expected);
    op_fixture_close(f);
    op_fixture_destroy(f);
}

static void test_every_type(void **state)
{
    (void)state;
    static const struct shape shapes[] = {{1, 256, {48}}, {7, 256, {21}}};
    for (int t = 0; t <= GGML_BF16; t++)
        for (uint32_t i = 0; i < 2 && ggml_type_block((enum ggml_type)t).elements != 0; i++) {
            check((enum ggml_type)t, &shapes[i], false);
            check((enum ggml_type)t, &shapes[i], true);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
