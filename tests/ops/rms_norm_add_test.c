/*
 * rms_norm_add against a double-precision loop: the norm of one tensor added into another, every
 * tier.
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

static void expect_norm(const float *x, const float *weight, const float *y, uint32_t columns,
                        double epsilon, double offset, const float *actual)
{
    double expected[1024];
    double sum = 0.0;
    for (uint32_t c = 0; c < columns; c++)
        sum += (double)x[c] * x[c];
    for (uint32_t c = 0; c < columns; c++) {
        expected[c] = x[c] / sqrt(sum / columns + epsilon) * (weight[c] + offset);
        if (y)
            expected[c] += y[c];
    }
    op_fixture_expect_close("rms_norm_add", actual, expected, columns,
                            (double)op_stem_tolerance(OP_rms_norm_add));
}

static void check(enum cpu_tier tier, uint32_t columns, bool into_second)
{
    enum { ROWS = 5 };
    struct op_fixture *f = op_fixture_create(columns);
    plan_tensor_id x = op_fixture_tensor(f, PLAN_ROWS_STEP, columns);
    plan_tensor_id y = op_fixture_tensor(f, PLAN_ROWS_STEP, columns);
    plan_tensor_id out = into_second ? y : op_fixture_tensor(f, PLAN_ROWS_STEP, columns);
    plan_weight_id weight = op_fixture_weight(f, GGML_F32, 1, columns);
    op_fixture_append(f, (struct plan_op){.stem = OP_rms_norm_add,
                                          .inputs = {x, y},
                                          .output = out,
                                          .weights = {weight, PLAN_NONE, PLAN_NONE},
                                          .params.rms_norm_add = {1e-6f, 1.0f}});
    if (op_fixture_open(f, tier, 2)) {
        float *added = malloc(ROWS * columns * sizeof *added);
        float *w = malloc(columns * sizeof *w);
        op_fixture_weight_row(f, weight, 0, w);
        op_fixture_poison(f, out, ROWS);
        op_fixture_fill(f, x, ROWS);
        op_fixture_fill(f, y, ROWS);
        memcpy(added, op_fixture_row(f, y, 0), ROWS * columns * sizeof *added);
        op_fixture_step(f, &(struct op_fixture_part){0, ROWS, 0}, 1, NULL, NULL, 0);
        for (uint32_t r = 0; r < ROWS; r++)
            expect_norm(op_fixture_row(f, x, r), w, added + r * columns, columns, 1e-6, 1.0,
                        op_fixture_row(f, out, r));
        free(added);
        free(w);
        op_fixture_close(f);
    }
    op_fixture_destroy(f);
}

static void test_against_double(void **state)
{
    (void)state;
    static const uint32_t widths[] = {1, 7, 8, 33, 640};
    for (uint32_t tier = 0; tier < OP_FIXTURE_TIERS; tier++)
        for (uint32_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
            check(op_fixture_tier(tier), widths[i], false);
            check(op_fixture_tier(tier), widths[i], true);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
