/*
 * cross_attention against its formula in double: rows that attend to no feature, to fewer and to more than
 * are scored together, to the same ones, and to several ranges; query heads that share keys; the second of two layers.
 * seeing_rows with the same rows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "proto/must.h"
#include "tests/support/op_fixture.h"

#define ROWS      9u
#define POOL_ROWS 200u
#define KV_HEADS  2u
#define LAYERS    2u
#define OFFSET    3u /* columns before the queries */
#define LAYER     1u

struct shape {
    uint32_t heads;
    uint32_t head_dim;
};

#define RANGES 6u
static const struct feature_range ranges[RANGES] = {{0, 1},    {5, 64},  {5, 0},
                                                    {70, 130}, {199, 1}, {0, 200}};
static const struct row_crossing crossed[ROWS] = {{0, 1, false}, {0, 0, false}, {1, 1, false},
                                                  {0, 3, false}, {5, 1, true},  {3, 1, false},
                                                  {3, 1, true},  {4, 1, false}, {0, 6, false}};

static double expected(const float *query, const struct cpu_feature_pool *pool,
                       struct row_crossing crossing, const struct shape *shape, uint32_t head,
                       uint32_t column)
{
    size_t wide = KV_HEADS * shape->head_dim, shared = head / (shape->heads / KV_HEADS);
    double sum = 0, total = 0;
    for (uint32_t r = crossing.first_range; r < crossing.first_range + crossing.range_count; r++) {
        for (uint32_t i = 0; i < ranges[r].row_count; i++) {
            const float *feature = cpu_feature_pool_row(pool, ranges[r].first_row + i);
            const float *key = feature + 2 * LAYER * wide + shared * shape->head_dim;
            double score = 0;
            for (uint32_t d = 0; d < shape->head_dim; d++)
                score += (double)query[d] * (double)key[d];
            double weight = exp(score * 0.5);
            total += weight;
            sum += weight * (double)key[wide + column];
        }
    }
    return total > 0 ? sum / total : 0.0;
}

static void check(const struct shape *shape, uint32_t threads)
{
    uint32_t columns = shape->heads * shape->head_dim;
    struct op_fixture *f = op_fixture_create(4);
    struct plan_sketch *sketch = op_fixture_sketch(f);
    plan_tensor_id x = plan_sketch_tensor(sketch, PLAN_ROWS_STEP, OFFSET + columns);
    plan_tensor_id out = plan_sketch_tensor(sketch, PLAN_ROWS_STEP, columns);
    plan_sketch_append(
        sketch,
        (struct plan_op){.stem = OP_cross_attention,
                         .inputs = {x, PLAN_NONE},
                         .output = out,
                         .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                         .params.cross_attention = {
                             {OFFSET, shape->heads, shape->head_dim}, KV_HEADS, LAYER, 0.5f}});
    struct cpu_feature_pool pool;
    uint32_t pool_columns = 2 * LAYERS * KV_HEADS * shape->head_dim;
    must(cpu_feature_pool_init(&pool, POOL_ROWS, pool_columns, NULL) == RESULT_OK);
    for (size_t i = 0; i < (size_t)POOL_ROWS * pool_columns; i++)
        cpu_feature_pool_row(&pool, 0)[i] = plan_sketch_uniform(sketch);
    must(op_fixture_open(f, CPU_TIER_BEST, threads));
    op_fixture_cross(
        f, &pool,
        &(const struct step_batch){.crossed = crossed, .ranges = ranges, .range_count = RANGES});
    op_fixture_fill(f, x, ROWS);
    op_fixture_poison(f, out, ROWS);
    op_fixture_step(f, &(const struct op_fixture_part){0, ROWS, 0}, 1, NULL, NULL, 0);
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t c = 0; c < columns; c++) {
            uint32_t head = c / shape->head_dim;
            const float *query = op_fixture_row(f, x, row) + OFFSET + head * shape->head_dim;
            double wanted = expected(query, &pool, crossed[row], shape, head, c % shape->head_dim);
            double difference = fabs(wanted - (double)op_fixture_row(f, out, row)[c]);
            if (!(difference < 2e-6))
                fail_msg("row %u column %u differs by %g", row, c, difference);
        }
    op_fixture_close(f);
    cpu_feature_pool_fini(&pool);
    op_fixture_destroy(f);
}

static void test_against_double(void **state)
{
    (void)state;
    static const struct shape shapes[] = {{2, 64}, {6, 5}, {4, 12}, {2, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check(&shapes[i], 1);
        check(&shapes[i], 3);
    }
}

/* Rows without ranges, and blind ones, become 0; without images, all. */
static void check_seeing(bool images)
{
    const uint32_t columns = 37;
    struct op_fixture *f = op_fixture_create(5);
    struct plan_sketch *sketch = op_fixture_sketch(f);
    plan_tensor_id x = plan_sketch_tensor(sketch, PLAN_ROWS_STEP, columns);
    plan_sketch_append(sketch, (struct plan_op){.stem = OP_seeing_rows,
                                                .inputs = {x, PLAN_NONE},
                                                .output = x,
                                                .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE}});
    struct cpu_feature_pool pool;
    must(cpu_feature_pool_init(&pool, POOL_ROWS, 1, NULL) == RESULT_OK);
    must(op_fixture_open(f, CPU_TIER_BEST, 2));
    if (images)
        op_fixture_cross(f, &pool,
                         &(const struct step_batch){
                             .crossed = crossed, .ranges = ranges, .range_count = RANGES});
    for (uint32_t i = 0; i < ROWS * columns; i++)
        op_fixture_row(f, x, 0)[i] = (float)(i + 1);
    op_fixture_step(f, &(const struct op_fixture_part){0, ROWS, 0}, 1, NULL, NULL, 0);
    for (uint32_t row = 0; row < ROWS; row++) {
        bool sees = images && crossed[row].range_count > 0 && !crossed[row].blind;
        for (uint32_t c = 0; c < columns; c++) {
            float wanted = sees ? (float)(row * columns + c + 1) : 0.0f;
            assert_memory_equal(&op_fixture_row(f, x, row)[c], &wanted, sizeof wanted);
        }
    }
    op_fixture_close(f);
    cpu_feature_pool_fini(&pool);
    op_fixture_destroy(f);
}

static void test_seeing_rows(void **state)
{
    (void)state;
    check_seeing(true);
    check_seeing(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double),
                                       cmocka_unit_test(test_seeing_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
