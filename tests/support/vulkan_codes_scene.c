#include "tests/support/vulkan_codes_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/vulkan/record/vulkan_batch.h"
#include "worker/backend/vulkan/weights/vulkan_kv_tables.h"
#include "worker/plan/kv_layout.h"

#define SEED        9u
#define WORDS_BYTES 96u

static float uniform(struct test_random *random)
{
    return (float)test_random_below(random, 20001) / 10000.0f - 1.0f;
}

struct vulkan_attention_shape codes_scene_shape(const struct codes_scene_case *c)
{
    return (struct vulkan_attention_shape){
        .head_dim = c->head_dim,
        .heads = c->heads,
        .kv_heads = c->kv_heads,
        .window = c->window,
        .kv_group = 2,
        .stride = (c->heads + 2 * c->kv_heads) * c->head_dim,
        .scale = 1.0f / sqrtf((float)c->head_dim),
        .soft_cap = c->soft_cap,
        .sinks = c->sinks,
        .magnitude = 1.0f,
        .codes = {.scheme = c->quantization.scheme,
                  .key_half_bits = c->quantization.key_half_bits,
                  .value_half_bits = c->quantization.value_half_bits,
                  .group_dims = kv_codec_group_size(&c->quantization, c->head_dim)},
    };
}

/* --- what a row sees: positions [begin, end) --- */

static uint32_t sight_begin(const struct codes_scene *scene, uint32_t position)
{
    uint32_t window = scene->c->window;
    return window > 0 && position + 1 > window ? position + 1 - window : 0;
}

static uint32_t sight_end(const struct codes_scene_part *part, uint32_t position)
{
    bool in_span = position >= part->span_first && position < part->span_end;
    return in_span ? part->span_end : position + 1;
}

static uint32_t part_end(const struct codes_scene_part *part)
{
    return part->first_position + part->rows;
}

static uint32_t part_blocks(const struct codes_scene_part *part)
{
    return (part_end(part) + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
}

/* --- making one --- */

static uint8_t *side_of(const struct codes_scene *scene, const struct vulkan_buffer *region,
                        uint32_t bytes, uint32_t p, uint32_t position, uint32_t head)
{
    const uint32_t *tables = scene->tables->mapped;
    uint32_t block = tables[scene->first_block[p] + position / KV_BLOCK_TOKENS];
    must(block != KV_BLOCK_NONE);
    return (uint8_t *)region->mapped + ((size_t)block * scene->c->kv_heads + head) * bytes;
}

/* A row of a size that differs from position to position, and about a middle that is not 0. */
static void make_row(struct test_random *random, uint32_t dim, float *x)
{
    float size = ldexpf(1.0f, (int)test_random_below(random, 6) - 4);
    float middle = uniform(random);
    for (uint32_t d = 0; d < dim; d++)
        x[d] = size * (uniform(random) + middle);
}

static void fill_side(const struct codes_scene *scene, struct test_random *random,
                      const struct kv_side *side, const struct vulkan_buffer *region)
{
    float row[LIMIT_HEAD_DIM];
    memset(region->mapped, 0xFF, region->bytes);
    for (uint32_t p = 0; p < scene->part_count; p++)
        for (uint32_t at = sight_begin(scene, scene->parts[p].first_position);
             at < part_end(&scene->parts[p]); at++)
            for (uint32_t h = 0; h < scene->c->kv_heads; h++) {
                make_row(random, scene->c->head_dim, row);
                kv_codec_encode(side, row, at % KV_BLOCK_TOKENS,
                                side_of(scene, region, side->bytes, p, at, h));
            }
}

static void make_tables(struct codes_scene *scene, uint32_t blocks)
{
    struct vulkan_step_sequence sequences[CODES_SCENE_PARTS + 1] = {{.row_count = 0}};
    uint32_t *tables = must_alloc(blocks, sizeof *tables), next = 0;
    for (uint32_t p = 0; p < scene->part_count; p++) {
        const struct codes_scene_part *part = &scene->parts[p];
        uint32_t gone = sight_begin(scene, part->first_position) / KV_BLOCK_TOKENS;
        scene->first_block[p] = next;
        sequences[p] = (struct vulkan_step_sequence){.first_row = scene->first_row[p],
                                                     .row_count = part->rows,
                                                     .first_position = part->first_position};
        sequences[p].table[scene->shape.kv_group] = next;
        for (uint32_t b = 0; b < part_blocks(part); b++, next++)
            tables[next] = b < gone ? KV_BLOCK_NONE : (next * 7 + 3) % blocks;
    }
    must(next <= blocks && blocks % 7 != 0);
    scene->sequences =
        vulkan_trial_buffer(scene->trial, sequences, (scene->part_count + 1) * sizeof *sequences);
    scene->tables = vulkan_trial_buffer(scene->trial, tables, blocks * sizeof *tables);
    free(tables);
}

static void make_sights(struct codes_scene *scene)
{
    struct vulkan_step_sight *sights = must_alloc(scene->rows, sizeof *sights);
    for (uint32_t p = 0; p < scene->part_count; p++)
        for (uint32_t r = 0; r < scene->parts[p].rows; r++)
            sights[scene->first_row[p] + r].end =
                sight_end(&scene->parts[p], scene->parts[p].first_position + r);
    scene->sights = vulkan_trial_buffer(scene->trial, sights, scene->rows * sizeof *sights);
    free(sights);
}

static void make_kv_tables(struct codes_scene *scene)
{
    scene->kv_tables =
        vulkan_trial_buffer(scene->trial, NULL, vulkan_kv_tables_bytes(scene->c->head_dim));
    if (scene->codec.key.rotated)
        vulkan_kv_tables_fill(scene->kv_tables->mapped, &scene->codec);
}

static void fill_floats(const struct vulkan_buffer *buffer, struct test_random *random, float size)
{
    for (size_t i = 0; i < buffer->bytes / sizeof(float); i++)
        ((float *)buffer->mapped)[i] = size * uniform(random);
}

void codes_scene_init(struct codes_scene *scene, struct vulkan_trial *trial,
                      const struct codes_scene_case *c, const struct codes_scene_part *parts,
                      uint32_t part_count)
{
    struct test_random random = {SEED};
    uint32_t blocks = 0;
    must(part_count <= CODES_SCENE_PARTS);
    *scene = (struct codes_scene){
        .trial = trial, .c = c, .shape = codes_scene_shape(c), .part_count = part_count};
    for (uint32_t p = 0; p < part_count; p++) {
        scene->parts[p] = parts[p];
        scene->first_row[p] = scene->rows;
        scene->rows += parts[p].rows;
        blocks += part_blocks(&parts[p]);
    }
    blocks += blocks % 7 == 0; /* a block's place is its number times 7 */
    kv_codec_init(&scene->codec, &c->quantization, c->head_dim);
    scene->qkv = vulkan_trial_buffer(trial, NULL,
                                     (uint64_t)scene->rows * scene->shape.stride * sizeof(float));
    scene->sinks = vulkan_trial_buffer(trial, NULL, c->heads * sizeof(float));
    fill_floats(scene->qkv, &random, c->query_size);
    fill_floats(scene->sinks, &random, 1.0f);
    make_tables(scene, blocks);
    make_sights(scene);
    uint64_t heads = (uint64_t)blocks * c->kv_heads;
    scene->keys = vulkan_trial_buffer(trial, NULL, heads * scene->codec.key.bytes);
    scene->values = vulkan_trial_buffer(trial, NULL, heads * scene->codec.value.bytes);
    fill_side(scene, &random, &scene->codec.key, scene->keys);
    fill_side(scene, &random, &scene->codec.value, scene->values);
    make_kv_tables(scene);
}

void codes_scene_fini(struct codes_scene *scene)
{
    kv_codec_fini(&scene->codec);
}

const float *codes_scene_run(const struct codes_scene *scene,
                             const struct vulkan_attention_choice *choice,
                             const struct vulkan_buffer *tiles)
{
    struct vulkan_trial *trial = scene->trial;
    uint64_t columns = (uint64_t)scene->shape.heads * scene->shape.head_dim;
    const struct vulkan_buffer *partials =
        vulkan_trial_buffer(trial, NULL, choice->partial_bytes + 16);
    const struct vulkan_buffer *counters =
        vulkan_trial_buffer(trial, NULL, choice->counter_bytes + 16);
    const struct vulkan_buffer *out =
        vulkan_trial_buffer(trial, NULL, scene->rows * columns * sizeof(float));
    memset(counters->mapped, 0, counters->bytes);
    const struct vulkan_attention_rows_push push = {
        .qkv = scene->qkv->address,
        .keys = scene->keys->address,
        .values = scene->values->address,
        .items = tiles ? tiles->address : 0,
        .sequences = scene->sequences->address,
        .tables = scene->tables->address,
        .partials = partials->address,
        .counters = counters->address,
        .outputs = {.f32 = out->address},
        .kv_tables = scene->kv_tables->address,
        .sights = tiles ? scene->sights->address : 0,
        .sinks = scene->sinks->address,
    };
    vulkan_trial_run(trial, choice->shader, &choice->specialization, &push, sizeof push,
                     choice->grid);
    for (uint64_t i = 0; i < choice->counter_bytes / 4; i++)
        assert_int_equal(((const uint32_t *)counters->mapped)[i], 0);
    return out->mapped;
}

/* --- what should come out --- */

/* Rows [part's end, head_dim] of a KV head, as the codes say. */
static float *decode(const struct codes_scene *scene, const struct kv_side *side,
                     const struct vulkan_buffer *region, uint32_t p, uint32_t head)
{
    const struct codes_scene_part *part = &scene->parts[p];
    uint32_t dim = scene->c->head_dim;
    float *rows = must_alloc((size_t)part_end(part) * dim, sizeof *rows);
    for (uint32_t at = sight_begin(scene, part->first_position); at < part_end(part); at++) {
        float *row = rows + (size_t)at * dim;
        kv_codec_decode(side, side_of(scene, region, side->bytes, p, at, head),
                        at % KV_BLOCK_TOKENS, row);
        if (side->rotated)
            kv_rotation_invert(&side->rotation, row);
    }
    return rows;
}

/* Of the part's row r. Returns the largest mean magnitude of the values that make an element. */
static double attend(const struct codes_scene *scene, uint32_t p, uint32_t r, uint32_t head,
                     const float *keys, const float *values, double *out)
{
    const struct codes_scene_case *c = scene->c;
    uint32_t dim = c->head_dim, position = scene->parts[p].first_position + r;
    uint32_t begin = sight_begin(scene, position), end = sight_end(&scene->parts[p], position);
    const float *query = (const float *)scene->qkv->mapped +
                         (size_t)(scene->first_row[p] + r) * scene->shape.stride +
                         (size_t)head * dim;
    double sink = c->sinks ? (double)((const float *)scene->sinks->mapped)[head] : -INFINITY;
    double *scores = must_alloc(end, sizeof *scores), top = sink;
    for (uint32_t at = begin; at < end; at++) {
        scores[at] = 0.0;
        for (uint32_t d = 0; d < dim; d++)
            scores[at] += (double)query[d] * (double)keys[(size_t)at * dim + d];
        scores[at] *= (double)scene->shape.scale;
        if (c->soft_cap > 0.0f)
            scores[at] = (double)c->soft_cap * tanh(scores[at] / (double)c->soft_cap);
        top = fmax(top, scores[at]);
    }
    double total = exp(sink - top);
    double magnitudes[LIMIT_HEAD_DIM] = {0}, largest = 0.0;
    memset(out, 0, dim * sizeof *out);
    for (uint32_t at = begin; at < end; at++) {
        double weight = exp(scores[at] - top);
        total += weight;
        for (uint32_t d = 0; d < dim; d++) {
            out[d] += weight * (double)values[(size_t)at * dim + d];
            magnitudes[d] += weight * fabs((double)values[(size_t)at * dim + d]);
        }
    }
    for (uint32_t d = 0; d < dim; d++) {
        out[d] /= total;
        largest = fmax(largest, magnitudes[d] / total);
    }
    free(scores);
    return largest;
}

static double compare_head(const struct codes_scene *scene, uint32_t p, uint32_t r, uint32_t head,
                           const float *got, const double *expected, double slack)
{
    uint32_t dim = scene->c->head_dim;
    double worst = 0.0;
    got += ((size_t)(scene->first_row[p] + r) * scene->c->heads + head) * dim;
    for (uint32_t d = 0; d < dim; d++) {
        double error = fabs((double)got[d] - expected[d]);
        if (!(error <= slack))
            fail_msg("%s: position %u, head %u, element %u: %.9g, not %.9g",
                     codes_scene_words(scene->c), scene->parts[p].first_position + r, head, d,
                     (double)got[d], expected[d]);
        worst = fmax(worst, error);
    }
    return worst;
}

double codes_scene_compare(const struct codes_scene *scene, const float *got, bool tiles,
                           double tolerance)
{
    const struct codes_scene_case *c = scene->c;
    uint32_t group = c->heads / c->kv_heads;
    double expected[LIMIT_HEAD_DIM], worst = 0.0;
    for (uint32_t p = 0; p < scene->part_count; p++)
        for (uint32_t kv_head = 0; kv_head < c->kv_heads; kv_head++) {
            if ((scene->parts[p].rows > 1) != tiles)
                continue;
            float *keys = decode(scene, &scene->codec.key, scene->keys, p, kv_head);
            float *values = decode(scene, &scene->codec.value, scene->values, p, kv_head);
            for (uint32_t i = 0; i < scene->parts[p].rows * group; i++) {
                uint32_t r = i / group, head = kv_head * group + i % group;
                double size = attend(scene, p, r, head, keys, values, expected);
                worst = fmax(
                    worst, compare_head(scene, p, r, head, got, expected, size * tolerance) / size);
            }
            free(keys);
            free(values);
        }
    return worst;
}

const char *codes_scene_words(const struct codes_scene_case *c)
{
    static char words[WORDS_BYTES];
    snprintf(words, sizeof words, "%s, keys %g, values %g bits, heads %u/%u of %u",
             c->quantization.scheme == KV_QUANT_UNIFORM ? "uniform" : "turboquant",
             c->quantization.key_half_bits / 2.0, c->quantization.value_half_bits / 2.0, c->heads,
             c->kv_heads, c->head_dim);
    return words;
}
