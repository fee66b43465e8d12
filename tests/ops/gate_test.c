/*
 * gate against double precision: both activations, odd widths, inputs from tiny to where exp()
 * overflows, every tier.
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

static double activate(enum gate_activation activation, double v)
{
    if (activation == GATE_SILU)
        return v / (1.0 + exp(-v));
    return 0.5 * v * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (v + 0.044715 * v * v * v)));
}

static void check(enum cpu_tier tier, enum gate_activation activation, uint32_t columns)
{
    enum { ROWS = 3 };
    static const float magnitudes[ROWS] = {1.0f, 12.0f, 300.0f};
    struct op_fixture *f = op_fixture_create(columns);
    plan_tensor_id x = op_fixture_tensor(f, PLAN_ROWS_STEP, 2 * columns);
    plan_tensor_id out = op_fixture_tensor(f, PLAN_ROWS_STEP, columns);
    op_fixture_append(f, (struct plan_op){.stem = OP_gate,
                                          .inputs = {x, PLAN_NONE},
                                          .output = out,
                                          .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                                          .params.gate = {activation}});
    if (op_fixture_open(f, tier, 2)) {
        double *expected = malloc(columns * sizeof *expected);
        op_fixture_fill(f, x, ROWS);
        op_fixture_poison(f, out, ROWS);
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t c = 0; c < columns; c++)
                op_fixture_row(f, x, r)[c] *= magnitudes[r];
        op_fixture_step(f, &(struct op_fixture_part){0, ROWS, 0}, 1, NULL, NULL, 0);
        for (uint32_t r = 0; r < ROWS; r++) {
            const float *row = op_fixture_row(f, x, r);
            for (uint32_t c = 0; c < columns; c++)
                expected[c] = activate(activation, (double)row[c]) * (double)row[columns + c];
            op_fixture_expect_close("gate", op_fixture_row(f, out, r), expected, columns,
                                    (double)op_stem_tolerance(OP_gate));
        }
        free(expected);
        op_fixture_close(f);
    }
    op_fixture_destroy(f);
}

static void test_against_double(void **state)
{
    (void)state;
    static const uint32_t widths[] = {1, 13, 512, 1543};
    for (uint32_t tier = 0; tier < OP_FIXTURE_TIERS; tier++)
        for (uint32_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
            check(op_fixture_tier(tier), GATE_SILU, widths[i]);
            check(op_fixture_tier(tier), GATE_GELU_TANH, widths[i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
