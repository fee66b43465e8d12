/*
 * Decodes over quantized keys and values in matrix units, against attention in double over what
 * kv_codec says the codes stand for: schemes, bits, head sizes, groups of query heads, windows,
 * soft caps, sinks, splits, lengths around a block's end. Scales of keys and values differ by
 * powers of two, and every place of the cache that no query may see is NaN or the largest code.
 *
 * The variant without units runs on every device; the one with units where their registers are
 * known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "proto/must.h"
#include "tests/support/test_random.h"
#include "tests/support/vulkan_fixture.h"
#include "tests/support/vulkan_trial.h"
#include "worker/backend/vulkan/vulkan_attention_policy.h"
#include "worker/backend/vulkan/vulkan_attention_push.h"
#include "worker/backend/vulkan/vulkan_batch.h"
#include "worker/backend/vulkan/vulkan_kernels.h"
#include "worker/backend/vulkan/vulkan_register_probe.h"
#include "worker/cache/kv_codec.h"
#include "worker/cache/kv_layout.h"

#define TOLERANCE 2e-3 /* op_list.h: attention */

struct codes_case {
    struct kv_quantization quantization;
    uint32_t head_dim, heads, kv_heads, window;
    float soft_cap;
    bool sinks;
    uint32_t tile_blocks, subgroups, splits; /* 0: the policy's */
};
static const struct codes_case cases[] = {
    {{KV_QUANT_UNIFORM, 8, 8, 0, 0}, 128, 8, 2, 0, 0, false, 1, 2, 3},
    {{KV_QUANT_TURBOQUANT, 6, 8, 0, 0}, 128, 4, 1, 0, 0, true, 1, 2, 2},
    {{KV_QUANT_UNIFORM, 16, 16, 0, 0}, 128, 3, 1, 0, 0, false, 2, 1, 1},
    {{KV_QUANT_UNIFORM, 6, 10, 0, 0}, 64, 8, 1, 40, 0, true, 1, 4, 2},
    {{KV_QUANT_TURBOQUANT, 8, 8, 0, 0}, 64, 12, 1, 0, 1.5f, false, 2, 2, 1},
    {{KV_QUANT_UNIFORM, 14, 14, 0, 0}, 128, 4, 2, 0, 0, false, 1, 2, 2},
    {{KV_QUANT_UNIFORM, 8, 16, 0, 0}, 256, 2, 1, 0, 0, false, 1, 1, 2},
    {{KV_QUANT_TURBOQUANT, 4, 6, 0, 0}, 256, 1, 1, 0, 0, false, 1, 2, 1},
    {{KV_QUANT_TURBOQUANT, 6, 8, 0, 0}, 128, 8, 2, 0, 0, false, 0, 0, 0},
    {{KV_QUANT_UNIFORM, 4, 12, 128, 0}, 128, 2, 2, 0, 0, false, 1, 2, 1},
};
#define CASES (sizeof cases / sizeof cases[0])

static const uint32_t contexts[] = {1, 15, 16, 17, 130, 700};
#define SEQUENCES (sizeof contexts / sizeof contexts[0])

struct scene {
    const struct codes_case *c;
    struct kv_codec codec;
    struct vulkan_attention_shape shape;
    const struct vulkan_buffer *qkv, *keys, *values, *sequences, *tables, *kv_tables, *sinks;
    uint32_t first_block[SEQUENCES]; /* in the block table */
};

static float uniform(struct test_random *random)
{
    return (float)test_random_below(random, 20001) / 10000.0f - 1.0f;
}

static uint32_t blocks_of(uint32_t context)
{
    return (context + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
}

static struct vulkan_attention_shape shape_of(const struct codes_case *c)
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
                  .key_bits = c->quantization.key_half_bits / 2,
                  .value_bits = c->quantization.value_half_bits / 2,
                  .group_dims = kv_codec_group_size(&c->quantization, c->head_dim)},
    };
}

static uint32_t first_seen(const struct codes_case *c, uint32_t context)
{
    return c->window > 0 && context > c->window ? context - c->window : 0;
}

static uint8_t *side_of(const struct scene *scene, const struct vulkan_buffer *region,
                        uint32_t bytes, uint32_t s, uint32_t position, uint32_t head)
{
    const uint32_t *tables = scene->tables->mapped;
    uint32_t block = tables[scene->first_block[s] + position / KV_BLOCK_TOKENS];
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

static void fill_cache(struct scene *scene, struct test_random *random)
{
    float row[512];
    memset(scene->keys->mapped, 0xFF, scene->keys->bytes);
    memset(scene->values->mapped, 0xFF, scene->values->bytes);
    for (uint32_t s = 0; s < SEQUENCES; s++)
        for (uint32_t p = first_seen(scene->c, contexts[s]); p < contexts[s]; p++)
            for (uint32_t h = 0; h < scene->c->kv_heads; h++) {
                make_row(random, scene->c->head_dim, row);
                kv_codec_encode(&scene->codec.key, row, p % KV_BLOCK_TOKENS,
                                side_of(scene, scene->keys, scene->codec.key.bytes, s, p, h));
                make_row(random, scene->c->head_dim, row);
                kv_codec_encode(&scene->codec.value, row, p % KV_BLOCK_TOKENS,
                                side_of(scene, scene->values, scene->codec.value.bytes, s, p, h));
            }
}

/* Blocks in an order of their own; those before a window are nobody's. One sequence of three rows,
 * which is no decode, and one of none stand behind. */
static void make_tables(struct scene *scene, struct vulkan_trial *trial, uint32_t blocks)
{
    struct vulkan_step_sequence sequences[SEQUENCES + 2] = {{.row_count = 0}};
    uint32_t *tables = must_alloc(blocks, sizeof *tables), next = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        uint32_t gone = first_seen(scene->c, contexts[s]) / KV_BLOCK_TOKENS;
        scene->first_block[s] = next;
        sequences[s] = (struct vulkan_step_sequence){
            .first_row = s, .row_count = 1, .first_position = contexts[s] - 1};
        sequences[s].table[scene->shape.kv_group] = next;
        for (uint32_t b = 0; b < blocks_of(contexts[s]); b++, next++)
            tables[next] = b < gone ? KV_BLOCK_NONE : (next * 7 + 3) % blocks;
    }
    must(next == blocks && blocks % 7 != 0);
    sequences[SEQUENCES] = (struct vulkan_step_sequence){.first_row = 0, .row_count = 3};
    scene->sequences = vulkan_trial_buffer(trial, sequences, sizeof sequences);
    scene->tables = vulkan_trial_buffer(trial, tables, blocks * sizeof *tables);
    free(tables);
}

static void make_kv_tables(struct scene *scene, struct vulkan_trial *trial)
{
    const struct kv_side *sides[2] = {&scene->codec.key, &scene->codec.value};
    size_t dim = scene->c->head_dim;
    scene->kv_tables = vulkan_trial_buffer(trial, NULL, sizeof(struct vulkan_kv_tables) + 8 * dim);
    struct vulkan_kv_tables *tables = scene->kv_tables->mapped;
    float *signs = (float *)(void *)(tables + 1);
    for (uint32_t i = 0; i < 2 && scene->codec.key.rotated; i++) {
        memcpy(tables->levels[i], sides[i]->codebooks[0].levels, sizeof tables->levels[i]);
        memcpy(signs + i * dim, sides[i]->rotation.signs, dim * sizeof(float));
    }
}

static void make_scene(struct scene *scene, struct vulkan_trial *trial, struct test_random *random,
                       const struct codes_case *c)
{
    uint32_t blocks = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++)
        blocks += blocks_of(contexts[s]);
    *scene = (struct scene){.c = c, .shape = shape_of(c)};
    kv_codec_init(&scene->codec, &c->quantization, c->head_dim);
    scene->qkv =
        vulkan_trial_buffer(trial, NULL, (uint64_t)SEQUENCES * scene->shape.stride * sizeof(float));
    for (size_t i = 0; i < SEQUENCES * scene->shape.stride; i++)
        ((float *)scene->qkv->mapped)[i] = 3.0f * uniform(random);
    scene->sinks = vulkan_trial_buffer(trial, NULL, c->heads * sizeof(float));
    for (uint32_t h = 0; h < c->heads; h++)
        ((float *)scene->sinks->mapped)[h] = uniform(random);
    make_tables(scene, trial, blocks);
    uint64_t heads = (uint64_t)blocks * c->kv_heads;
    scene->keys = vulkan_trial_buffer(trial, NULL, heads * scene->codec.key.bytes);
    scene->values = vulkan_trial_buffer(trial, NULL, heads * scene->codec.value.bytes);
    fill_cache(scene, random);
    make_kv_tables(scene, trial);
}

/* Rows [context, head_dim] of a KV head, as the codes say. */
static float *decode(const struct scene *scene, const struct kv_side *side,
                     const struct vulkan_buffer *region, uint32_t s, uint32_t head)
{
    uint32_t dim = scene->c->head_dim;
    float *rows = must_alloc((size_t)contexts[s] * dim, sizeof *rows);
    for (uint32_t p = first_seen(scene->c, contexts[s]); p < contexts[s]; p++) {
        kv_codec_decode(side, side_of(scene, region, side->bytes, s, p, head), p % KV_BLOCK_TOKENS,
                        rows + (size_t)p * dim);
        if (side->rotated)
            kv_rotation_invert(&side->rotation, rows + (size_t)p * dim);
    }
    return rows;
}

static void attend(const struct scene *scene, uint32_t s, uint32_t head, const float *keys,
                   const float *values, double *out)
{
    const struct codes_case *c = scene->c;
    uint32_t dim = c->head_dim;
    const float *query =
        (const float *)scene->qkv->mapped + (size_t)s * scene->shape.stride + (size_t)head * dim;
    double top = c->sinks ? (double)((const float *)scene->sinks->mapped)[head] : -INFINITY;
    double *scores = must_alloc(contexts[s], sizeof *scores);
    for (uint32_t p = first_seen(c, contexts[s]); p < contexts[s]; p++) {
        scores[p] = 0.0;
        for (uint32_t d = 0; d < dim; d++)
            scores[p] += (double)query[d] * (double)keys[(size_t)p * dim + d];
        scores[p] *= (double)scene->shape.scale;
        if (c->soft_cap > 0.0f)
            scores[p] = (double)c->soft_cap * tanh(scores[p] / (double)c->soft_cap);
        top = fmax(top, scores[p]);
    }
    double total = c->sinks ? exp((double)((const float *)scene->sinks->mapped)[head] - top) : 0.0;
    memset(out, 0, dim * sizeof *out);
    for (uint32_t p = first_seen(c, contexts[s]); p < contexts[s]; p++) {
        double weight = exp(scores[p] - top);
        total += weight;
        for (uint32_t d = 0; d < dim; d++)
            out[d] += weight * (double)values[(size_t)p * dim + d];
    }
    for (uint32_t d = 0; d < dim; d++)
        out[d] /= total;
    free(scores);
}

/* Returns the largest error, as a part of the head's largest number. */
static double compare(const struct scene *scene, const float *got)
{
    const struct codes_case *c = scene->c;
    uint32_t dim = c->head_dim;
    double expected[512], worst = 0.0;
    for (uint32_t s = 0; s < SEQUENCES; s++)
        for (uint32_t head = 0; head < c->heads; head++) {
            uint32_t kv_head = head / (c->heads / c->kv_heads);
            float *keys = decode(scene, &scene->codec.key, scene->keys, s, kv_head);
            float *values = decode(scene, &scene->codec.value, scene->values, s, kv_head);
            const float *row = got + ((size_t)s * c->heads + head) * dim;
            double largest = 0.0;
            attend(scene, s, head, keys, values, expected);
            for (uint32_t d = 0; d < dim; d++)
                largest = fmax(largest, fabs(expected[d]));
            for (uint32_t d = 0; d < dim; d++) {
                double error = fabs((double)row[d] - expected[d]) / largest;
                if (!(error <= TOLERANCE))
                    fail_msg("context %u, head %u, element %u: %.9g, not %.9g", contexts[s], head,
                             d, (double)row[d], expected[d]);
                worst = fmax(worst, error);
            }
            free(keys);
            free(values);
        }
    return worst;
}

/* What the policy chooses on a GPU whose registers are known, but for the case's own sizes. */
static struct vulkan_attention_choice choose(const struct scene *scene,
                                             const struct vulkan_device *device)
{
    const struct codes_case *c = scene->c;
    struct vulkan_facts facts = device->facts;
    facts.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    facts.tier = VULKAN_KHR_MATRIX;
    facts.subgroup_size = 32;
    facts.matrix_registers = true;
    struct vulkan_attention_task task = {
        .shape = scene->shape, .items = SEQUENCES + 2, .forms = VULKAN_FORM_F32};
    struct vulkan_attention_choice choice = vulkan_attention_policy_choose(&facts, &task);
    uint32_t *values = choice.specialization.values;
    assert_string_equal(choice.shader, "attention_codes_units");
    if (c->splits == 0)
        return choice;
    values[VULKAN_ATTENTION_CODES_TILE_BLOCKS] = c->tile_blocks;
    values[VULKAN_ATTENTION_CODES_SUBGROUPS] = c->subgroups;
    values[VULKAN_ATTENTION_CODES_INVOCATIONS] = 32 * c->subgroups;
    values[VULKAN_ATTENTION_CODES_SPLITS] = choice.grid.y = c->splits;
    choice.partial_bytes = (uint64_t)choice.grid.x * choice.grid.z * c->splits * 16384;
    choice.counter_bytes = (uint64_t)choice.grid.x * choice.grid.z * 4;
    return choice;
}

static void run_case(struct vulkan_trial *trial, const struct codes_case *c, const char *shader)
{
    struct test_random random = {9};
    struct scene scene;
    make_scene(&scene, trial, &random, c);
    struct vulkan_attention_choice choice = choose(&scene, trial->device);
    const struct vulkan_buffer *counters =
        vulkan_trial_buffer(trial, NULL, choice.counter_bytes + 16);
    const struct vulkan_buffer *out = vulkan_trial_buffer(
        trial, NULL, (uint64_t)SEQUENCES * c->heads * c->head_dim * sizeof(float));
    memset(counters->mapped, 0, counters->bytes);
    const struct vulkan_attention_rows_push push = {
        .qkv = scene.qkv->address,
        .keys = scene.keys->address,
        .values = scene.values->address,
        .sequences = scene.sequences->address,
        .tables = scene.tables->address,
        .partials = vulkan_trial_buffer(trial, NULL, choice.partial_bytes + 16)->address,
        .counters = counters->address,
        .outputs = {.f32 = out->address},
        .frequencies = scene.kv_tables->address,
        .key_norm = scene.sinks->address,
    };
    vulkan_trial_run(trial, shader, &choice.specialization, &push, sizeof push, choice.grid);
    for (uint64_t i = 0; i < choice.counter_bytes / 4; i++)
        assert_int_equal(((const uint32_t *)counters->mapped)[i], 0);
    print_message("%s %s, keys %u, values %u bits, heads %u/%u of %u: largest error %.2g\n", shader,
                  c->quantization.scheme == KV_QUANT_UNIFORM ? "uniform" : "turboquant",
                  scene.shape.codes.key_bits, scene.shape.codes.value_bits, c->heads, c->kv_heads,
                  c->head_dim, compare(&scene, out->mapped));
    kv_codec_fini(&scene.codec);
    vulkan_trial_clear(trial);
}

static void attends_without_units(void **state)
{
    struct vulkan_trial trial;
    if (vulkan_fixture_share(*state) == VULKAN_SHARE_MATRIX)
        skip();
    vulkan_trial_init(&trial, *state);
    for (size_t i = 0; i < CASES; i++)
        run_case(&trial, &cases[i], "attention_codes_plain");
    vulkan_trial_fini(&trial);
}

static void attends_in_units_whose_registers_are_known(void **state)
{
    struct vulkan_trial trial;
    vulkan_trial_init(&trial, *state);
    bool known = vulkan_register_probe(trial.device, trial.kernels);
    for (size_t i = 0; known && i < CASES; i++)
        run_case(&trial, &cases[i], "attention_codes_units");
    vulkan_trial_fini(&trial);
    if (!known)
        skip();
}

/* What it cannot read, and devices whose registers nobody knows, stay with the other kernel. */
static void leaves_the_rest_to_the_other_kernel(void **state)
{
    const struct vulkan_facts known = {.tier = VULKAN_KHR_MATRIX,
                                       .matrix_registers = true,
                                       .subgroup_size = 32,
                                       .max_invocations = 1024,
                                       .shared_bytes = 49152,
                                       .compute_units = 132};
    const struct vulkan_attention_task codes = {
        .shape = shape_of(&cases[0]), .items = 4, .forms = VULKAN_FORM_F32};
    (void)state;
    struct vulkan_attention_choice choice = vulkan_attention_policy_choose(&known, &codes);
    assert_string_equal(choice.shader, "attention_codes_units");
    for (uint32_t i = 0; i < 5; i++) {
        struct vulkan_facts facts = known;
        struct vulkan_attention_task task = codes;
        facts.matrix_registers = i != 0;
        facts.subgroup_size = i == 1 ? 64 : 32;
        facts.tier = i == 2 ? VULKAN_DOT : known.tier;
        task.shape.codes.group_dims = i == 3 ? 32 : 64;
        task.tiles = i == 4;
        choice = vulkan_attention_policy_choose(&facts, &task);
        assert_string_equal(choice.shader, "attention_rows");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_the_rest_to_the_other_kernel),
        cmocka_unit_test(attends_without_units),
        cmocka_unit_test(attends_in_units_whose_registers_are_known),
    };
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
