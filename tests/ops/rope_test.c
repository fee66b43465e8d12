/*
 * rope against a double-precision rotation: both pairings, heads of which only a part is rotated,
 * far positions, and columns outside the slice left alone.
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

struct rope_case {
    enum rope_pairing pairing;
    struct column_slice slice;
    uint32_t dims;
    uint32_t first_position;
};

static void expect_rotated(const struct rope_config *rope, const float *old, const float *new,
                           uint32_t head_dim, uint32_t position)
{
    double expected[512];
    for (uint32_t d = 0; d < head_dim; d++)
        expected[d] = old[d];
    for (uint32_t i = 0; i < rope->dims / 2; i++) {
        bool halves = rope->pairing == ROPE_PAIRS_HALVES;
        uint32_t a = halves ? i : 2 * i;
        uint32_t b = halves ? i + rope->dims / 2 : 2 * i + 1;
        /* the contract's angle is the f32 product */
        double angle = (double)((float)position * rope->inverse_frequency[i]);
        double c = cos(angle) * rope->magnitude;
        double s = sin(angle) * rope->magnitude;
        expected[a] = old[a] * c - old[b] * s;
        expected[b] = old[a] * s + old[b] * c;
    }
    op_fixture_expect_close("rope", new, expected, head_dim, (double)op_stem_tolerance(OP_rope));
}

static void check(const struct rope_case *c)
{
    enum { ROWS = 5, COLUMNS = 300 };
    struct op_fixture *f = op_fixture_create(c->dims);
    struct model_config *config = &op_fixture_plan(f)->config;
    struct rope_config *rope = &config->ropes[1];
    plan_tensor_id x = op_fixture_tensor(f, PLAN_ROWS_STEP, COLUMNS);
    config->rope_count = 2;
    config->ropes[0] = (struct rope_config){.dims = 2};
    *rope = (struct rope_config){.pairing = c->pairing, .dims = c->dims, .magnitude = 1.25f};
    for (uint32_t i = 0; i < c->dims / 2; i++)
        rope->inverse_frequency[i] = powf(10000.0f, -2.0f * (float)i / (float)c->dims);
    op_fixture_append(f, (struct plan_op){.stem = OP_rope,
                                          .inputs = {x, PLAN_NONE},
                                          .output = x,
                                          .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                                          .params.rope = {c->slice, 1}});
    assert_true(op_fixture_open(f, CPU_TIER_BEST, 2));
    float before[ROWS * COLUMNS];
    op_fixture_fill(f, x, ROWS);
    memcpy(before, op_fixture_row(f, x, 0), sizeof before);
    op_fixture_step(f, &(struct op_fixture_part){0, ROWS, c->first_position}, 1, NULL, NULL, 0);
    uint32_t end = c->slice.offset + c->slice.heads * c->slice.head_dim;
    for (uint32_t r = 0; r < ROWS; r++) {
        const float *old = before + r * COLUMNS;
        const float *new = op_fixture_row(f, x, r);
        for (uint32_t at = c->slice.offset; at < end; at += c->slice.head_dim)
            expect_rotated(rope, old + at, new + at, c->slice.head_dim, c->first_position + r);
        assert_memory_equal(old, new, c->slice.offset * sizeof *old);
        assert_memory_equal(old + end, new + end, (COLUMNS - end) * sizeof *old);
    }
    op_fixture_close(f);
    op_fixture_destroy(f);
}

static void test_against_double(void **state)
{
    (void)state;
    static const struct rope_case cases[] = {
        {ROPE_PAIRS_ADJACENT, {0, 4, 64}, 64, 0},
        {ROPE_PAIRS_ADJACENT, {7, 3, 20}, 14, 1000},
        {ROPE_PAIRS_HALVES, {0, 1, 256}, 256, 131071},
        {ROPE_PAIRS_HALVES, {3, 5, 18}, 6, 77},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
