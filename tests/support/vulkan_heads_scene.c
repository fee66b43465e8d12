/*
 * The scene is made on the host from random numbers. Keys, values and their norms are about 1 in
 * size, queries a few times that, so that softmaxes are neither flat nor a single spike.
 */
#include "tests/support/vulkan_heads_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "proto/must.h"
#include "worker/backend/host/ggml_dequantize.h"
#include "worker/backend/vulkan/record/vulkan_batch.h"
#include "worker/plan/kv_layout.h"
#include "worker/plan/model_config.h"

#define POISON 0xFFFFu /* an f16 NaN */

static float uniform(struct test_random *random)
{
    return (float)test_random_below(random, 20001) / 10000.0f - 1.0f;
}

/* Nearest f16 of a number in f16's normal range or 0. */
static uint16_t to_half(double x)
{
    if (x == 0.0)
        return 0;
    int exponent;
    double fraction = frexp(fabs(x), &exponent); /* in [0.5, 1) */
    int bits = exponent < -13 ? 24 + exponent : 11;
    int64_t mantissa = llrint(ldexp(fraction, bits));
    int64_t encoded =
        exponent < -13 ? mantissa : mantissa - 1024 + ((int64_t)(exponent + 14) << 10);
    return (uint16_t)(encoded | (x < 0 ? 0x8000 : 0));
}

static double round_to_half(double x)
{
    return (double)ggml_f16_to_f32(to_half(x));
}

static size_t kv_columns(const struct heads_scene *scene)
{
    return (size_t)scene->shape.kv_heads * scene->shape.head_dim;
}

static uint32_t part_blocks(const struct heads_scene_part *part)
{
    return (part->first_position + part->rows + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
}

static uint32_t first_visible(const struct heads_scene *scene, uint32_t position)
{
    uint32_t window = scene->shape.window;
    return window > 0 && position + 1 > window ? position + 1 - window : 0;
}

/* Element index of a position's first dimension in a region. */
static size_t cache_index(const struct heads_scene *scene, uint32_t part, uint32_t position,
                          uint32_t kv_head)
{
    uint32_t block = scene->tables[part][position / KV_BLOCK_TOKENS];
    must(block < scene->blocks);
    return (((size_t)block * scene->shape.kv_heads + kv_head) * KV_BLOCK_TOKENS +
            position % KV_BLOCK_TOKENS) *
           scene->shape.head_dim;
}

static void put_position(const struct heads_scene *scene, const struct vulkan_buffer *region,
                         uint32_t part, uint32_t position, const double *heads)
{
    uint32_t dim = scene->shape.head_dim;
    for (uint32_t h = 0; h < scene->shape.kv_heads; h++) {
        uint16_t *out = (uint16_t *)region->mapped + cache_index(scene, part, position, h);
        for (uint32_t d = 0; d < dim; d++)
            out[d] = to_half(heads[h * dim + d]);
    }
}

static void make_pasts(struct heads_scene *scene, struct test_random *random)
{
    size_t columns = kv_columns(scene);
    for (uint32_t p = 0; p < scene->part_count; p++) {
        uint32_t past = scene->parts[p].first_position;
        scene->past_keys[p] = must_alloc(past * columns + 1, sizeof(double));
        scene->past_values[p] = must_alloc(past * columns + 1, sizeof(double));
        for (size_t i = 0; i < past * columns; i++) {
            scene->past_keys[p][i] = round_to_half((double)uniform(random));
            scene->past_values[p][i] = round_to_half((double)uniform(random));
        }
        for (uint32_t at = first_visible(scene, past); at < past; at++) {
            put_position(scene, scene->keys, p, at, scene->past_keys[p] + at * columns);
            put_position(scene, scene->values, p, at, scene->past_values[p] + at * columns);
        }
    }
}

/* Tables of all parts one behind the other; blocks are handed out in random order. */
static void make_tables(struct heads_scene *scene, struct test_random *random)
{
    uint32_t *order = must_alloc(scene->blocks, sizeof *order);
    uint32_t *entries = scene->block_tables->mapped;
    struct vulkan_step_sequence *sequences = scene->sequences->mapped;
    uint32_t next = 0, row = 0;
    for (uint32_t i = 0; i < scene->blocks; i++)
        order[i] = i;
    for (uint32_t i = scene->blocks - 1; i > 0; i--) {
        uint32_t j = (uint32_t)test_random_below(random, i + 1), held = order[i];
        order[i] = order[j];
        order[j] = held;
    }
    memset(sequences, 0, scene->sequences->bytes);
    for (uint32_t p = 0; p < scene->part_count; p++) {
        const struct heads_scene_part *part = &scene->parts[p];
        uint32_t gone = first_visible(scene, part->first_position) / KV_BLOCK_TOKENS;
        scene->tables[p] = entries + next;
        sequences[p].first_row = row;
        sequences[p].row_count = part->rows;
        sequences[p].first_position = part->first_position;
        sequences[p].table[scene->shape.kv_group] = next;
        for (uint32_t b = 0; b < part_blocks(part); b++, next++)
            entries[next] = b < gone ? KV_BLOCK_NONE : order[next];
        row += part->rows;
    }
    free(order);
}

static double norm_factor(const struct heads_scene *scene, const float *head)
{
    double squares = 0.0;
    for (uint32_t d = 0; d < scene->shape.head_dim; d++)
        squares += (double)head[d] * (double)head[d];
    return 1.0 / sqrt(squares / scene->shape.head_dim + (double)HEADS_SCENE_EPSILON);
}

/* head [head_dim] f32 -> out, normed and rotated. */
static void prepare_head(const struct heads_scene *scene, const float *head, const float *weights,
                         uint32_t position, double *out)
{
    const struct vulkan_attention_shape *shape = &scene->shape;
    const float *frequencies = scene->frequencies->mapped;
    uint32_t pairs = shape->rope_dims / 2;
    double factor = norm_factor(scene, head);
    for (uint32_t d = 0; d < shape->head_dim; d++)
        out[d] = (double)head[d] *
                 (scene->norm ? factor * (double)(weights[d] + HEADS_SCENE_WEIGHT_OFFSET) : 1.0);
    for (uint32_t i = 0; i < pairs; i++) {
        float angle = (float)position * frequencies[i];
        double c = cos((double)angle) * (double)shape->magnitude;
        double s = sin((double)angle) * (double)shape->magnitude;
        bool halves = shape->pairing == ROPE_PAIRS_HALVES;
        double *x = out + (halves ? i : 2 * i), *y = out + (halves ? i + pairs : 2 * i + 1);
        double a = *x, b = *y;
        *x = a * c - b * s;
        *y = a * s + b * c;
    }
}

static void make_rows(struct heads_scene *scene, struct test_random *random)
{
    const struct vulkan_attention_shape *shape = &scene->shape;
    uint32_t dim = shape->head_dim;
    struct vulkan_step_row *step_rows = scene->step_rows->mapped;
    float *qkv = scene->qkv->mapped;
    for (size_t i = 0; i < (size_t)scene->rows * shape->stride; i++)
        qkv[i] = uniform(random) * 2.0f;
    for (uint32_t row = 0; row < scene->rows; row++) {
        const float *own = qkv + (size_t)row * shape->stride;
        uint32_t position = heads_scene_position(scene, row);
        step_rows[row] = (struct vulkan_step_row){.position = position,
                                                  .sequence = heads_scene_part_of(scene, row)};
        for (uint32_t h = 0; h < shape->heads; h++)
            prepare_head(scene, own + shape->query_offset + h * dim, scene->query_norm->mapped,
                         position, scene->row_queries + ((size_t)row * shape->heads + h) * dim);
        for (uint32_t h = 0; h < shape->kv_heads; h++) {
            size_t at = ((size_t)row * shape->kv_heads + h) * dim;
            prepare_head(scene, own + shape->key_offset + h * dim, scene->key_norm->mapped,
                         position, scene->row_keys + at);
            const float *value = own + shape->value_offset + h * dim;
            double factor =
                scene->norm == HEADS_SCENE_NORM_VALUES ? norm_factor(scene, value) : 1.0;
            for (uint32_t d = 0; d < dim; d++) {
                scene->row_keys[at + d] = round_to_half(scene->row_keys[at + d]);
                scene->row_values[at + d] = round_to_half(factor * (double)value[d]);
            }
        }
    }
}

static const struct vulkan_buffer *vector(struct heads_scene *scene, struct test_random *random)
{
    const struct vulkan_buffer *buffer =
        vulkan_trial_buffer(scene->trial, NULL, scene->shape.head_dim * sizeof(float));
    for (uint32_t d = 0; d < scene->shape.head_dim; d++)
        ((float *)buffer->mapped)[d] = uniform(random);
    return buffer;
}

static void make_buffers(struct heads_scene *scene, struct test_random *random)
{
    struct vulkan_trial *trial = scene->trial;
    uint64_t region = (uint64_t)scene->blocks * KV_BLOCK_TOKENS * kv_columns(scene) * 2;
    uint32_t pairs = scene->shape.rope_dims / 2;
    scene->qkv = vulkan_trial_buffer(trial, NULL, (uint64_t)scene->rows * scene->shape.stride * 4);
    scene->query_norm = vector(scene, random);
    scene->key_norm = vector(scene, random);
    scene->frequencies = vulkan_trial_buffer(trial, NULL, (pairs + 1) * sizeof(float));
    for (uint32_t i = 0; i < pairs; i++)
        ((float *)scene->frequencies->mapped)[i] = powf(10000.0f, -(float)i / (float)pairs);
    scene->keys = vulkan_trial_buffer(trial, NULL, region);
    scene->values = vulkan_trial_buffer(trial, NULL, region);
    memset(scene->keys->mapped, POISON & 0xFF, region);
    memset(scene->values->mapped, POISON & 0xFF, region);
    scene->step_rows =
        vulkan_trial_buffer(trial, NULL, scene->rows * sizeof(struct vulkan_step_row));
    scene->sequences = vulkan_trial_buffer(
        trial, NULL, (scene->part_count + 1) * sizeof(struct vulkan_step_sequence));
    scene->block_tables = vulkan_trial_buffer(trial, NULL, scene->blocks * sizeof(uint32_t));
}

struct heads_scene *heads_scene_create(struct vulkan_trial *trial, struct test_random *random,
                                       const struct vulkan_attention_shape *shape,
                                       enum heads_scene_norm norm,
                                       const struct heads_scene_part *parts, uint32_t part_count)
{
    struct heads_scene *scene = must_alloc(1, sizeof *scene);
    must(part_count <= HEADS_SCENE_PARTS);
    *scene = (struct heads_scene){
        .trial = trial, .shape = *shape, .norm = norm, .part_count = part_count};
    for (uint32_t p = 0; p < part_count; p++) {
        scene->parts[p] = parts[p];
        scene->rows += parts[p].rows;
        scene->blocks += part_blocks(&parts[p]);
    }
    size_t kv_cells = scene->rows * kv_columns(scene);
    scene->row_queries =
        must_alloc((size_t)scene->rows * shape->heads * shape->head_dim, sizeof(double));
    scene->row_keys = must_alloc(kv_cells, sizeof(double));
    scene->row_values = must_alloc(kv_cells, sizeof(double));
    make_buffers(scene, random);
    make_tables(scene, random);
    make_pasts(scene, random);
    make_rows(scene, random);
    return scene;
}

void heads_scene_destroy(struct heads_scene *scene)
{
    for (uint32_t p = 0; p < scene->part_count; p++) {
        free(scene->past_keys[p]);
        free(scene->past_values[p]);
    }
    free(scene->row_queries);
    free(scene->row_keys);
    free(scene->row_values);
    free(scene);
}

uint32_t heads_scene_part_of(const struct heads_scene *scene, uint32_t row)
{
    uint32_t part = 0;
    for (; row >= scene->parts[part].rows; part++)
        row -= scene->parts[part].rows;
    return part;
}

uint32_t heads_scene_position(const struct heads_scene *scene, uint32_t row)
{
    uint32_t part = 0;
    for (; row >= scene->parts[part].rows; part++)
        row -= scene->parts[part].rows;
    return scene->parts[part].first_position + row;
}

void heads_scene_write_rows(struct heads_scene *scene)
{
    const struct vulkan_attention_shape *shape = &scene->shape;
    size_t columns = kv_columns(scene);
    for (uint32_t row = 0; row < scene->rows; row++) {
        uint32_t part = heads_scene_part_of(scene, row);
        uint32_t position = heads_scene_position(scene, row);
        float *queries =
            (float *)scene->qkv->mapped + (size_t)row * shape->stride + shape->query_offset;
        put_position(scene, scene->keys, part, position, scene->row_keys + row * columns);
        put_position(scene, scene->values, part, position, scene->row_values + row * columns);
        for (uint32_t i = 0; i < shape->heads * shape->head_dim; i++)
            queries[i] =
                (float)scene->row_queries[(size_t)row * shape->heads * shape->head_dim + i];
    }
}

static void expect_close(const char *what, uint32_t row, size_t at, double got, double expected,
                         double slack)
{
    if (!(fabs(got - expected) <= slack))
        fail_msg("%s of row %u at %zu: %.9g, not %.9g", what, row, at, got, expected);
}

static void check_cache_row(const struct heads_scene *scene, uint32_t row)
{
    uint32_t dim = scene->shape.head_dim;
    for (uint32_t h = 0; h < scene->shape.kv_heads; h++) {
        size_t at = cache_index(scene, heads_scene_part_of(scene, row),
                                heads_scene_position(scene, row), h);
        const uint16_t *key = (const uint16_t *)scene->keys->mapped + at;
        const uint16_t *value = (const uint16_t *)scene->values->mapped + at;
        for (uint32_t d = 0; d < dim; d++) {
            size_t own = ((size_t)row * scene->shape.kv_heads + h) * dim + d;
            double k = scene->row_keys[own], v = scene->row_values[own];
            bool exact = scene->norm != HEADS_SCENE_NORM_VALUES;
            /* What is next to the border between two halves may fall to either side. */
            expect_close("key", row, d, (double)ggml_f16_to_f32(key[d]), k, fabs(k) / 1000 + 2e-5);
            expect_close("value", row, d, (double)ggml_f16_to_f32(value[d]), v,
                         exact ? 0.0 : fabs(v) / 1000 + 2e-5);
        }
    }
}

void heads_scene_check_written(const struct heads_scene *scene, bool queries_in_place)
{
    const struct vulkan_attention_shape *shape = &scene->shape;
    uint32_t columns = shape->heads * shape->head_dim;
    size_t numbers = 0, expected = scene->rows;
    for (uint32_t row = 0; row < scene->rows; row++) {
        const float *own = (const float *)scene->qkv->mapped + (size_t)row * shape->stride;
        check_cache_row(scene, row);
        for (uint32_t i = 0; i < columns && queries_in_place; i++)
            expect_close("query", row, i, (double)own[shape->query_offset + i],
                         scene->row_queries[(size_t)row * columns + i], 5e-5);
    }
    for (uint32_t p = 0; p < scene->part_count; p++)
        expected +=
            scene->parts[p].first_position - first_visible(scene, scene->parts[p].first_position);
    for (size_t i = 0; i < scene->keys->bytes / 2; i++)
        numbers += ((const uint16_t *)scene->keys->mapped)[i] != POISON;
    if (scene->shape.window == 0)
        assert_int_equal(numbers, expected * kv_columns(scene));
}

/* Key (or value) of KV head h at a position of the row's sequence. */
static const double *at_position(const struct heads_scene *scene, uint32_t row, uint32_t position,
                                 double *const *past, const double *own)
{
    uint32_t part = heads_scene_part_of(scene, row);
    uint32_t begin = scene->parts[part].first_position;
    size_t columns = kv_columns(scene);
    if (position < begin)
        return past[part] + position * columns;
    return own + (row - (heads_scene_position(scene, row) - position)) * columns;
}

void heads_scene_attend(const struct heads_scene *scene, uint32_t row, double *out)
{
    const struct vulkan_attention_shape *shape = &scene->shape;
    uint32_t dim = shape->head_dim, position = heads_scene_position(scene, row);
    double *scores = must_alloc(position + 1, sizeof *scores);
    for (uint32_t h = 0; h < shape->heads; h++) {
        const double *query = scene->row_queries + ((size_t)row * shape->heads + h) * dim;
        size_t offset = (size_t)(h / (shape->heads / shape->kv_heads)) * dim;
        double highest = -INFINITY, total = 0.0;
        for (uint32_t p = first_visible(scene, position); p <= position; p++) {
            const double *key =
                at_position(scene, row, p, scene->past_keys, scene->row_keys) + offset;
            scores[p] = 0.0;
            for (uint32_t d = 0; d < dim; d++)
                scores[p] += query[d] * key[d];
            scores[p] *= (double)shape->scale;
            if (shape->soft_cap > 0.0f)
                scores[p] = (double)shape->soft_cap * tanh(scores[p] / (double)shape->soft_cap);
            highest = fmax(highest, scores[p]);
        }
        memset(out + h * dim, 0, dim * sizeof *out);
        for (uint32_t p = first_visible(scene, position); p <= position; p++) {
            const double *value =
                at_position(scene, row, p, scene->past_values, scene->row_values) + offset;
            double weight = exp(scores[p] - highest);
            total += weight;
            for (uint32_t d = 0; d < dim; d++)
                out[h * dim + d] += weight * value[d];
        }
        for (uint32_t d = 0; d < dim; d++)
            out[h * dim + d] /= total;
    }
    free(scores);
}

struct vulkan_attention_rows_push heads_scene_attention_push(const struct heads_scene *scene)
{
    return (struct vulkan_attention_rows_push){
        .qkv = scene->qkv->address,
        .keys = scene->keys->address,
        .values = scene->values->address,
        .sequences = scene->sequences->address,
        .tables = scene->block_tables->address,
        .frequencies = scene->frequencies->address,
        .query_norm = scene->query_norm->address,
        .key_norm = scene->key_norm->address,
        .epsilon = HEADS_SCENE_EPSILON,
        .weight_offset = HEADS_SCENE_WEIGHT_OFFSET,
    };
}

struct vulkan_rope_kv_write_push heads_scene_heads_push(const struct heads_scene *scene)
{
    return (struct vulkan_rope_kv_write_push){
        .qkv = scene->qkv->address,
        .frequencies = scene->frequencies->address,
        .query_norm = scene->query_norm->address,
        .key_norm = scene->key_norm->address,
        .keys = scene->keys->address,
        .values = scene->values->address,
        .rows = scene->step_rows->address,
        .sequences = scene->sequences->address,
        .tables = scene->block_tables->address,
        .stride = scene->shape.stride,
        .query_offset = scene->shape.query_offset,
        .key_offset = scene->shape.key_offset,
        .value_offset = scene->shape.value_offset,
        .magnitude = scene->shape.magnitude,
        .epsilon = HEADS_SCENE_EPSILON,
        .weight_offset = HEADS_SCENE_WEIGHT_OFFSET,
    };
}
