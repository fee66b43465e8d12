/*
 * kv_write: where each key and value element lands, rounded to f16 and held to the finite range;
 * nothing else is written.
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

#include "worker/backend/cpu/cpu_kv_cache.h"
#include "worker/backend/cpu/ggml_dequantize.h"

enum {
    ROWS = 21,
    FIRST = 30,
    KV_HEADS = 2,
    HEAD_DIM = 70,
    LAYERS = 3,
    LAYER = 2,
    COLUMNS = 4 + 4 * HEAD_DIM
};

static uint16_t expected_half(float value)
{
    return ggml_f32_to_f16(isnan(value) || value > 65504.0f ? 65504.0f
                           : value < -65504.0f              ? -65504.0f
                                                            : value);
}

/* The pool's element for one head of one position. */
static uint16_t stored(struct op_fixture *f, uint32_t position, uint32_t head, uint32_t d,
                       bool value)
{
    struct kv_place place = cpu_kv_cache_place(op_fixture_program(f), LAYER);
    uint32_t block = op_fixture_block_table(f, 1)[position / KV_BLOCK_TOKENS];
    const uint16_t *base =
        place.elements + block * place.block_elements + head * place.head_elements;
    uint32_t slot = position % KV_BLOCK_TOKENS;
    return value ? base[(KV_BLOCK_TOKENS + slot) * HEAD_DIM + d] : base[d * KV_BLOCK_TOKENS + slot];
}

static void check(enum cpu_tier tier)
{
    struct op_fixture *f = op_fixture_create(5);
    plan_tensor_id x = op_fixture_tensor(f, PLAN_ROWS_STEP, COLUMNS);
    op_fixture_set_kv(f, LAYERS, KV_HEADS, HEAD_DIM, 0);
    op_fixture_append(f,
                      (struct plan_op){.stem = OP_kv_write,
                                       .inputs = {x, PLAN_NONE},
                                       .output = PLAN_NONE,
                                       .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                                       .params.kv_write = {{2, KV_HEADS, HEAD_DIM},
                                                           {4 + 2 * HEAD_DIM, KV_HEADS, HEAD_DIM},
                                                           LAYER}});
    if (op_fixture_open(f, tier, 2)) {
        const struct kv_pool *pool = &op_fixture_program(f)->kv[0];
        size_t untouched = 0;
        op_fixture_fill(f, x, ROWS);
        op_fixture_row(f, x, 3)[2] = 1e9f;
        op_fixture_row(f, x, 3)[3] = -INFINITY;
        op_fixture_row(f, x, 4)[4 + 2 * HEAD_DIM] = NAN;
        op_fixture_row(f, x, 4)[5 + 2 * HEAD_DIM] = 65519.9f;
        op_fixture_step(f, &(struct op_fixture_part){1, ROWS, FIRST}, 1, NULL, NULL, 0);
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t i = 0; i < KV_HEADS * HEAD_DIM; i++) {
                const float *row = op_fixture_row(f, x, r);
                assert_int_equal(stored(f, FIRST + r, i / HEAD_DIM, i % HEAD_DIM, false),
                                 expected_half(row[2 + i]));
                assert_int_equal(stored(f, FIRST + r, i / HEAD_DIM, i % HEAD_DIM, true),
                                 expected_half(row[4 + 2 * HEAD_DIM + i]));
            }
        for (size_t i = 0; i < pool->blocks * pool->block_elements; i++)
            untouched += pool->elements[i] == 0;
        /* random inputs are never exactly 0 */
        assert_int_equal(untouched,
                         pool->blocks * pool->block_elements - 2 * ROWS * KV_HEADS * HEAD_DIM);
        op_fixture_close(f);
    }
    op_fixture_destroy(f);
}

static void test_elements_land_in_their_places(void **state)
{
    (void)state;
    for (uint32_t tier = 0; tier < OP_FIXTURE_TIERS; tier++)
        check(op_fixture_tier(tier));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_elements_land_in_their_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
