/*
 * kv_write: where each key and value element is stored, rounded to the cache's type and clamped to
 * that type's finite range; nothing else is written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_fixture.h"

#include "worker/backend/cpu/program/cpu_kv_cache.h"
#include "worker/backend/host/ggml_dequantize.h"

void kv_write_cases(const struct op_case_visitor *visitor)
{
    static const uint32_t head_dims[] = {64, 70, 128};
    for (uint32_t i = 0; i < ARRAY_COUNT(head_dims); i++) {
        uint32_t wide = 3 * head_dims[i];
        struct op_case c = op_case_begin(OP_kv_write, 5 + 2 * wide + 1, wide);
        op_case_set_kv_steps(&c);
        c.window = 1;
        c.params.kv_write.keys = (struct column_slice){2, 3, head_dims[i]};
        c.params.kv_write.values = (struct column_slice){5 + wide, 3, head_dims[i]};
        op_case_visit(visitor, &c);
    }
}

enum {
    ROWS = 21,
    FIRST = 30,
    KV_HEADS = 2,
    HEAD_DIM = 70,
    LAYERS = 3,
    LAYER = 2,
    COLUMNS = 4 + 4 * HEAD_DIM
};

static float expected_element(enum kv_cache_type type, float x)
{
    float largest = type == KV_CACHE_F32 ? FLT_MAX : 65504.0f;
    float held = isnan(x) || x > largest ? largest : x < -largest ? -largest : x;
    return type == KV_CACHE_F32 ? held : ggml_f16_to_f32(ggml_f32_to_f16(held));
}

static float element(enum kv_cache_type type, const uint8_t *memory, size_t at)
{
    if (type == KV_CACHE_F32)
        return ((const float *)(const void *)memory)[at];
    return ggml_f16_to_f32(((const uint16_t *)(const void *)memory)[at]);
}

/* The pool's element for one head of one position. */
static float stored(struct op_fixture *f, uint32_t position, uint32_t head, uint32_t d, bool value)
{
    struct kv_place place = cpu_kv_cache_place(op_fixture_program(f), LAYER);
    uint32_t block = op_fixture_block_table(f, 1)[position / KV_BLOCK_TOKENS];
    const uint8_t *base = place.memory + block * place.block_bytes + head * place.head_bytes;
    uint32_t slot = position % KV_BLOCK_TOKENS;
    return element(place.type, base,
                   value ? (KV_BLOCK_TOKENS + slot) * HEAD_DIM + d : d * KV_BLOCK_TOKENS + slot);
}

static size_t elements_written(const struct kv_pool *pool)
{
    size_t written = 0;
    size_t elements = pool->blocks * pool->block_bytes / kv_cache_type_bytes(pool->type);
    for (size_t i = 0; i < elements; i++)
        written += element(pool->type, pool->memory, i) != 0.0f;
    return written; /* random inputs are never exactly 0 */
}

static void check(enum cpu_tier tier, enum kv_cache_type type)
{
    struct op_fixture *f = op_fixture_create(5);
    plan_tensor_id x = plan_sketch_tensor(op_fixture_sketch(f), PLAN_ROWS_STEP, COLUMNS);
    plan_sketch_set_kv(op_fixture_sketch(f), LAYERS, KV_HEADS, HEAD_DIM, 0);
    op_fixture_set_kv_type(f, type);
    plan_sketch_append(op_fixture_sketch(f),
                       (struct plan_op){.stem = OP_kv_write,
                                        .inputs = {x, PLAN_NONE},
                                        .output = PLAN_NONE,
                                        .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                                        .params.kv_write = {{2, KV_HEADS, HEAD_DIM},
                                                            {4 + 2 * HEAD_DIM, KV_HEADS, HEAD_DIM},
                                                            LAYER}});
    if (op_fixture_open(f, tier, 2)) {
        op_fixture_fill(f, x, ROWS);
        op_fixture_row(f, x, 3)[2] = 1e9f;
        op_fixture_row(f, x, 3)[3] = -INFINITY;
        op_fixture_row(f, x, 4)[4 + 2 * HEAD_DIM] = NAN;
        op_fixture_row(f, x, 4)[5 + 2 * HEAD_DIM] = 65519.9f;
        op_fixture_step(f, &(struct op_fixture_part){1, ROWS, FIRST}, 1, NULL, NULL, 0);
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t i = 0; i < KV_HEADS * HEAD_DIM; i++) {
                const float *row = op_fixture_row(f, x, r);
                float key = stored(f, FIRST + r, i / HEAD_DIM, i % HEAD_DIM, false);
                float value = stored(f, FIRST + r, i / HEAD_DIM, i % HEAD_DIM, true);
                assert_true(key == expected_element(type, row[2 + i]));
                assert_true(value == expected_element(type, row[4 + 2 * HEAD_DIM + i]));
            }
        assert_int_equal(elements_written(&op_fixture_program(f)->kv[0]),
                         2 * ROWS * KV_HEADS * HEAD_DIM);
        op_fixture_close(f);
    }
    op_fixture_destroy(f);
}

static void test_elements_are_stored_in_their_places(void **state)
{
    (void)state;
    for (uint32_t tier = 0; tier < OP_FIXTURE_TIERS; tier++) {
        check(op_fixture_tier(tier), KV_CACHE_F16);
        check(op_fixture_tier(tier), KV_CACHE_F32);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_elements_are_stored_in_their_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
