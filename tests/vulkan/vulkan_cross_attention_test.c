/*
 * The kernel of cross_attention against its formula in double: rows that attend to no feature, to fewer and
 * to more than a workgroup scores together, and to several ranges, heads of odd sizes and heads wider than a workgroup,
 * and query heads that share keys. That of seeing_rows with the same rows.
 */
// tags: threads native-sanitized
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tests/support/test_random.h"
#include "tests/support/vulkan_fixture.h"
#include "tests/support/vulkan_trial.h"
#include "worker/backend/vulkan/device/vulkan_vision_push.h"
#include "worker/backend/vulkan/record/vulkan_batch.h"

#define ROWS      5u
#define POOL_ROWS 700u
#define KV_HEADS  2u
#define OFFSET    3u /* columns before the queries */
#define SPARE     5u /* columns of a feature before the layer's keys */
#define SCALE     0.5f

struct shape {
    uint32_t heads;
    uint32_t head_dim;
    uint32_t invocations;
};

#define RANGES 5u
#define BEFORE 3u /* words before the ranges */
static const struct feature_range ranges[RANGES] = {{7, 600}, {20, 0}, {0, 1}, {5, 65}, {699, 1}};
static const struct row_crossing crossed[ROWS] = {
    {0, 1, false}, {0, 0, false}, {1, 2, false}, {3, 1, true}, {1, 4, false}};

static float *floats(struct vulkan_trial *trial, struct test_random *random, size_t count,
                     const struct vulkan_buffer **buffer)
{
    *buffer = vulkan_trial_buffer(trial, NULL, count * sizeof(float));
    float *values = (float *)(*buffer)->mapped;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)test_random_below(random, 20001) / 10000.0f - 1.0f;
    return values;
}

static double expected(const float *query, const float *features, uint32_t feature_columns,
                       struct row_crossing crossing, const struct shape *shape, uint32_t column)
{
    uint32_t head = column / shape->head_dim;
    size_t shared = (size_t)(head / (shape->heads / KV_HEADS)) * shape->head_dim;
    double sum = 0, total = 0;
    for (uint32_t r = crossing.first_range; r < crossing.first_range + crossing.range_count; r++) {
        for (uint32_t i = 0; i < ranges[r].row_count; i++) {
            const float *key =
                features + (size_t)(ranges[r].first_row + i) * feature_columns + SPARE + shared;
            double score = 0;
            for (uint32_t d = 0; d < shape->head_dim; d++)
                score += (double)query[head * shape->head_dim + d] * (double)key[d];
            double weight = exp(score * (double)SCALE);
            total += weight;
            sum += weight * (double)key[KV_HEADS * shape->head_dim + column % shape->head_dim];
        }
    }
    return total > 0 ? sum / total : 0.0;
}

static void set_sights(struct vulkan_step_sight sights[ROWS])
{
    for (uint32_t row = 0; row < ROWS; row++)
        sights[row] = (struct vulkan_step_sight){
            .crossed_first = BEFORE + 2 * crossed[row].first_range,
            .crossed_count =
                crossed[row].range_count | (crossed[row].blind ? VULKAN_SIGHT_BLIND : 0)};
}

static void check(struct vulkan_trial *trial, const struct shape *shape)
{
    struct test_random random = {.state = 3};
    uint32_t columns = shape->heads * shape->head_dim;
    uint32_t x_columns = OFFSET + columns, pool_columns = SPARE + 2 * KV_HEADS * shape->head_dim;
    const struct vulkan_buffer *x_buffer, *pool_buffer, *out_buffer;
    float *x = floats(trial, &random, (size_t)ROWS * x_columns, &x_buffer);
    float *pool = floats(trial, &random, (size_t)POOL_ROWS * pool_columns, &pool_buffer);
    float *out = floats(trial, &random, (size_t)ROWS * columns, &out_buffer);
    struct vulkan_step_sight sights[ROWS];
    uint32_t words[BEFORE + 2 * RANGES];
    memcpy(words + BEFORE, ranges, sizeof ranges);
    set_sights(sights);
    const struct vulkan_buffer *sight_buffer = vulkan_trial_buffer(trial, sights, sizeof sights);
    const struct vulkan_buffer *range_buffer = vulkan_trial_buffer(trial, words, sizeof words);
    const struct vulkan_cross_attention_push push = {.x = x_buffer->address,
                                                     .out_f32 = out_buffer->address,
                                                     .sights = sight_buffer->address,
                                                     .features = pool_buffer->address +
                                                                 SPARE * sizeof(float),
                                                     .ranges = range_buffer->address,
                                                     .x_columns = x_columns,
                                                     .query_offset = OFFSET,
                                                     .feature_columns = pool_columns,
                                                     .scale = SCALE};
    const struct vulkan_specialization specialization = {
        .count = VULKAN_CROSS_ATTENTION_CONSTANTS,
        .values = {[VULKAN_CROSS_ATTENTION_INVOCATIONS] = shape->invocations,
                   [VULKAN_CROSS_ATTENTION_HEAD_DIM] = shape->head_dim,
                   [VULKAN_CROSS_ATTENTION_HEADS] = shape->heads,
                   [VULKAN_CROSS_ATTENTION_KV_HEADS] = KV_HEADS}};
    vulkan_trial_run(trial, "cross_attention", &specialization, &push, sizeof push,
                     (struct vulkan_grid){ROWS, shape->heads, 1});
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t c = 0; c < columns; c++) {
            double wanted = expected(x + (size_t)row * x_columns + OFFSET, pool, pool_columns,
                                     crossed[row], shape, c);
            double difference = fabs(wanted - (double)out[(size_t)row * columns + c]);
            if (!(difference < 1e-5))
                fail_msg("heads of %u, row %u column %u: differs by %g", shape->head_dim, row, c,
                         difference);
        }
}

static void test_against_double(void **state)
{
    static const struct shape shapes[] = {
        {2, 64, 256}, {6, 5, 64}, {4, 12, 128}, {2, 1, 64}, {2, 80, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct vulkan_trial trial;
        vulkan_trial_init(&trial, *state);
        check(&trial, &shapes[i]);
        vulkan_trial_fini(&trial);
    }
}

static void test_seeing_rows(void **state)
{
    const uint32_t columns = 68;
    struct vulkan_trial trial;
    struct test_random random = {.state = 9};
    const struct vulkan_buffer *x_buffer;
    struct vulkan_step_sight sights[ROWS];
    float before[ROWS * 68];
    vulkan_trial_init(&trial, *state);
    float *x = floats(&trial, &random, (size_t)ROWS * columns, &x_buffer);
    memcpy(before, x, sizeof before);
    set_sights(sights);
    const struct vulkan_seeing_rows_push push = {
        .x = x_buffer->address,
        .sights = vulkan_trial_buffer(&trial, sights, sizeof sights)->address,
        .columns = columns};
    const struct vulkan_specialization specialization = {.count = VULKAN_ROW_CONSTANTS,
                                                         .values = {[VULKAN_ROW_INVOCATIONS] = 32}};
    vulkan_trial_run(&trial, "seeing_rows", &specialization, &push, sizeof push,
                     (struct vulkan_grid){ROWS, 1, 1});
    for (uint32_t i = 0; i < ROWS * columns; i++) {
        bool sees = crossed[i / columns].range_count > 0 && !crossed[i / columns].blind;
        float wanted = sees ? before[i] : 0.0f;
        assert_memory_equal(&x[i], &wanted, sizeof wanted);
    }
    vulkan_trial_fini(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double),
                                       cmocka_unit_test(test_seeing_rows)};
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
