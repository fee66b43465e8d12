/*
 * head_norm against a double-precision loop: each head of a slice alone, the other columns
 * untouched.
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
    op_fixture_expect_close("head_norm", actual, expected, columns,
                            (double)op_stem_tolerance(OP_head_norm));
}

static void check(enum cpu_tier tier, struct column_slice slice, uint32_t columns)
{
    enum { ROWS = 3 };
    struct op_fixture *f = op_fixture_create(columns);
    plan_tensor_id x = op_fixture_tensor(f, PLAN_ROWS_STEP, columns);
    plan_weight_id weight = op_fixture_weight(f, GGML_F32, 1, slice.head_dim);
    op_fixture_append(f, (struct plan_op){.stem = OP_head_norm,
                                          .inputs = {x, PLAN_NONE},
                                          .output = x,
                                          .weights = {weight, PLAN_NONE, PLAN_NONE},
                                          .params.head_norm = {slice, 1e-6f, 0.0f}});
    if (op_fixture_open(f, tier, 2)) {
        uint32_t end = slice.offset + slice.heads * slice.head_dim;
        float *before = malloc(ROWS * columns * sizeof *before);
        float *w = malloc(slice.head_dim * sizeof *w);
        op_fixture_weight_row(f, weight, 0, w);
        op_fixture_fill(f, x, ROWS);
        memcpy(before, op_fixture_row(f, x, 0), ROWS * columns * sizeof *before);
        op_fixture_step(f, &(struct op_fixture_part){0, ROWS, 0}, 1, NULL, NULL, 0);
        for (uint32_t r = 0; r < ROWS; r++) {
            const float *old = before + r * columns;
            const float *new = op_fixture_row(f, x, r);
            for (uint32_t at = slice.offset; at < end; at += slice.head_dim)
                expect_norm(old + at, w, NULL, slice.head_dim, 1e-6, 0.0, new + at);
            assert_memory_equal(old, new, slice.offset * sizeof *old);
            assert_memory_equal(old + end, new + end, (columns - end) * sizeof *old);
        }
        free(before);
        free(w);
        op_fixture_close(f);
    }
    op_fixture_destroy(f);
}

static void test_against_double(void **state)
{
    (void)state;
    for (uint32_t tier = 0; tier < OP_FIXTURE_TIERS; tier++) {
        check(op_fixture_tier(tier), (struct column_slice){0, 4, 256}, 1024);
        check(op_fixture_tier(tier), (struct column_slice){5, 3, 12}, 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
