/*
 * rms_norm against a double-precision loop: odd widths, with and without offset, in place and not,
 * every tier.
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
    op_fixture_expect_close("rms_norm", actual, expected, columns,
                            (double)op_stem_tolerance(OP_rms_norm));
}

static void check(enum cpu_tier tier, uint32_t columns, float offset, bool in_place)
{
    enum { ROWS = 5 };
    struct op_fixture *f = op_fixture_create(columns);
    plan_tensor_id x = op_fixture_tensor(f, PLAN_ROWS_STEP, columns);
    plan_tensor_id out = in_place ? x : op_fixture_tensor(f, PLAN_ROWS_STEP, columns);
    plan_weight_id weight = op_fixture_weight(f, GGML_F32, 1, columns);
    op_fixture_append(f, (struct plan_op){.stem = OP_rms_norm,
                                          .inputs = {x, PLAN_NONE},
                                          .output = out,
                                          .weights = {weight, PLAN_NONE, PLAN_NONE},
                                          .params.rms_norm = {1e-5f, offset}});
    if (op_fixture_open(f, tier, 2)) {
        float *before = malloc(ROWS * columns * sizeof *before);
        float *w = malloc(columns * sizeof *w);
        op_fixture_weight_row(f, weight, 0, w);
        if (!in_place)
            op_fixture_poison(f, out, ROWS);
        op_fixture_fill(f, x, ROWS);
        memcpy(before, op_fixture_row(f, x, 0), ROWS * columns * sizeof *before);
        op_fixture_step(f, &(struct op_fixture_part){0, ROWS, 0}, 1, NULL, NULL, 0);
        for (uint32_t r = 0; r < ROWS; r++)
            expect_norm(before + r * columns, w, NULL, columns, 1e-5, (double)offset,
                        op_fixture_row(f, out, r));
        free(before);
        free(w);
        op_fixture_close(f);
    }
    op_fixture_destroy(f);
}

static void test_against_double(void **state)
{
    (void)state;
    static const uint32_t widths[] = {1, 7, 8, 33, 576, 1000};
    for (uint32_t tier = 0; tier < OP_FIXTURE_TIERS; tier++)
        for (uint32_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
            check(op_fixture_tier(tier), widths[i], 0.0f, false);
            check(op_fixture_tier(tier), widths[i], 1.0f, true);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
