/*
 * The bytes that rope_kv_write writes to a quantized cache, against kv_codec's: schemes, bits of
 * either side in halves, head sizes with Hadamard transforms and with matrices, halves of a head
 * that end in the middle of a 16-bit word. Rows of two sequences fill blocks in part; every other
 * byte is unchanged.
 *
 * The device rounds sums differently, so a number next to a bound may get the neighbouring code,
 * and a scale or bias the neighbouring f16.
 */
// tags: no-sanitizers
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "proto/ggml_half.h"
#include "proto/must.h"
#include "tests/support/test_random.h"
#include "tests/support/vulkan_fixture.h"
#include "tests/support/vulkan_trial.h"
#include "worker/backend/vulkan/device/vulkan_attention_push.h"
#include "worker/backend/vulkan/device/vulkan_kernels.h"
#include "worker/backend/vulkan/policy/vulkan_attention_policy.h"
#include "worker/backend/vulkan/record/vulkan_batch.h"
#include "worker/backend/vulkan/weights/vulkan_kv_tables.h"
#include "worker/plan/kv_codec.h"
#include "worker/plan/kv_layout.h"

#define KV_HEADS  3u
#define SEQUENCES 2u
#define BLOCKS    3u /* of a sequence */
#define UNTOUCHED 0xA5
#define OTHER_MAX 2e-3 /* of all codes: neighbours of kv_codec's */

struct codes_case {
    struct kv_quantization quantization;
    uint32_t head_dim;
};
static const struct codes_case cases[] = {
    {{KV_QUANT_TURBOQUANT, 7, 7, 0, 0}, 128}, {{KV_QUANT_TURBOQUANT, 6, 8, 0, 0}, 64},
    {{KV_QUANT_TURBOQUANT, 5, 3, 0, 0}, 80},  {{KV_QUANT_TURBOQUANT, 6, 8, 0, 0}, 96},
    {{KV_QUANT_TURBOQUANT, 7, 8, 0, 0}, 48},  {{KV_QUANT_TURBOQUANT, 2, 7, 0, 0}, 16},
    {{KV_QUANT_TURBOQUANT, 3, 4, 0, 0}, 192}, {{KV_QUANT_UNIFORM, 10, 14, 32, 0}, 64},
    {{KV_QUANT_UNIFORM, 8, 16, 0, 0}, 80},
};
#define CASES (sizeof cases / sizeof cases[0])

/* [first, first + rows) of each sequence. */
static const uint32_t first_positions[SEQUENCES] = {5, 30};
static const uint32_t row_counts[SEQUENCES] = {29, 7};

struct scene {
    const struct codes_case *c;
    struct kv_codec codec;
    uint32_t rows, columns; /* columns: keys, then values */
    const struct vulkan_buffer *kv, *keys, *values, *step_rows, *sequences, *tables, *kv_tables;
    uint8_t *expected[2]; /* keys, values: as the regions should be */
};

struct counts {
    uint64_t codes, others;
};

static void make_row(struct test_random *random, uint32_t dim, float *x)
{
    float size = ldexpf(1.0f, (int)test_random_below(random, 12) - 6);
    float middle = (float)test_random_below(random, 2001) / 1000.0f - 1.0f;
    for (uint32_t d = 0; d < dim; d++)
        x[d] = size * ((float)test_random_below(random, 200001) / 100000.0f - 1.0f + middle);
}

static void make_step(struct scene *scene, struct vulkan_trial *trial)
{
    struct vulkan_step_sequence sequences[SEQUENCES] = {{.row_count = 0}};
    uint32_t tables[SEQUENCES * BLOCKS], row = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++)
        scene->rows += row_counts[s];
    struct vulkan_step_row *rows = must_alloc(scene->rows, sizeof *rows);
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        sequences[s] = (struct vulkan_step_sequence){
            row, row_counts[s], first_positions[s], 0, {[1] = s * BLOCKS}};
        for (uint32_t b = 0; b < BLOCKS; b++)
            tables[s * BLOCKS + b] = (s * BLOCKS + b) * 5 % (SEQUENCES * BLOCKS);
        for (uint32_t r = 0; r < row_counts[s]; r++, row++)
            rows[row] = (struct vulkan_step_row){.position = first_positions[s] + r, .sequence = s};
    }
    scene->step_rows = vulkan_trial_buffer(trial, rows, scene->rows * sizeof *rows);
    scene->sequences = vulkan_trial_buffer(trial, sequences, sizeof sequences);
    scene->tables = vulkan_trial_buffer(trial, tables, sizeof tables);
    free(rows);
}

static const struct vulkan_buffer *make_region(struct scene *scene, struct vulkan_trial *trial,
                                               const struct kv_side *side, uint32_t which)
{
    size_t bytes = (size_t)SEQUENCES * BLOCKS * KV_HEADS * side->bytes;
    const struct vulkan_buffer *region = vulkan_trial_buffer(trial, NULL, bytes);
    scene->expected[which] = must_alloc(bytes, 1);
    memset(region->mapped, UNTOUCHED, bytes);
    memset(scene->expected[which], UNTOUCHED, bytes);
    return region;
}

/* Where a row's head is in a region. */
static size_t side_at(const struct scene *scene, const struct kv_side *side, uint32_t row,
                      uint32_t head)
{
    const struct vulkan_step_row *r =
        (const struct vulkan_step_row *)scene->step_rows->mapped + row;
    const uint32_t *tables = scene->tables->mapped;
    uint32_t block = tables[r->sequence * BLOCKS + r->position / KV_BLOCK_TOKENS];
    return ((size_t)block * KV_HEADS + head) * side->bytes;
}

static uint32_t slot_of(const struct scene *scene, uint32_t row)
{
    const struct vulkan_step_row *rows = scene->step_rows->mapped;
    return rows[row].position % KV_BLOCK_TOKENS;
}

static void make_scene(struct scene *scene, struct vulkan_trial *trial, struct test_random *random,
                       const struct codes_case *c)
{
    *scene = (struct scene){.c = c, .columns = 2 * KV_HEADS * c->head_dim};
    kv_codec_init(&scene->codec, &c->quantization, c->head_dim);
    make_step(scene, trial);
    scene->kv = vulkan_trial_buffer(trial, NULL, (uint64_t)scene->rows * scene->columns * 4);
    scene->keys = make_region(scene, trial, &scene->codec.key, 0);
    scene->values = make_region(scene, trial, &scene->codec.value, 1);
    scene->kv_tables = vulkan_trial_buffer(trial, NULL, vulkan_kv_tables_bytes(c->head_dim));
    if (scene->codec.key.rotated)
        vulkan_kv_tables_fill(scene->kv_tables->mapped, &scene->codec);
    for (uint32_t row = 0; row < scene->rows; row++)
        for (uint32_t h = 0; h < 2 * KV_HEADS; h++) {
            const struct kv_side *side = h < KV_HEADS ? &scene->codec.key : &scene->codec.value;
            float *x =
                (float *)scene->kv->mapped + (size_t)row * scene->columns + (size_t)h * c->head_dim;
            make_row(random, c->head_dim, x);
            if (row == 3) /* a head of nothing */
                memset(x, 0, c->head_dim * sizeof *x);
            kv_codec_encode(side, x, slot_of(scene, row),
                            scene->expected[h / KV_HEADS] +
                                side_at(scene, side, row, h % KV_HEADS));
        }
}

/* Code d of the row at `codes`. */
static uint32_t code_at(const struct kv_side *side, const uint8_t *codes, uint32_t d)
{
    const struct kv_segment *segment = side->segments;
    while (d >= (uint32_t)segment->first + segment->count)
        segment++;
    uint32_t bit = (d - segment->first) * segment->bits, code = 0;
    for (uint32_t i = 0; i < segment->bits; i++, bit++)
        code |= (uint32_t)(codes[segment->code_offset + bit / 8] >> bit % 8 & 1) << i;
    return code;
}

static uint16_t half_at(const uint8_t *side, uint32_t offset, uint32_t scale, uint32_t slot)
{
    return ggml_load_u16(side + offset + 2 * (scale * KV_BLOCK_TOKENS + slot));
}

static void expect_near_half(const char *what, uint16_t got, uint16_t expected)
{
    double difference = (double)ggml_f16_to_f32(got) - (double)ggml_f16_to_f32(expected);
    if (!(fabs(difference) <= fabs((double)ggml_f16_to_f32(expected)) / 1000 + 1e-7))
        fail_msg("%s: %04x, not %04x", what, got, expected);
}

/* Compares a written slot; then its bytes become the expected ones. */
static void settle_slot(const struct kv_side *side, uint32_t slot, const uint8_t *got,
                        uint8_t *expected, struct counts *counts)
{
    size_t row = (size_t)slot * side->code_bytes;
    for (uint32_t d = 0; d < side->head_dim; d++) {
        uint32_t code = code_at(side, got + row, d), right = code_at(side, expected + row, d);
        if (code > right + 1 || right > code + 1)
            fail_msg("slot %u, dimension %u: code %u, not %u", slot, d, code, right);
        counts->codes++;
        counts->others += code != right;
    }
    memcpy(expected + row, got + row, side->code_bytes);
    for (uint32_t i = 0; i < side->scales; i++) {
        size_t at = 2 * (i * KV_BLOCK_TOKENS + slot);
        expect_near_half("scale", half_at(got, side->scale_offset, i, slot),
                         half_at(expected, side->scale_offset, i, slot));
        memcpy(expected + side->scale_offset + at, got + side->scale_offset + at, 2);
        if (!side->biased)
            continue;
        expect_near_half("bias", half_at(got, side->bias_offset, i, slot),
                         half_at(expected, side->bias_offset, i, slot));
        memcpy(expected + side->bias_offset + at, got + side->bias_offset + at, 2);
    }
}

static void compare(const struct scene *scene)
{
    const struct kv_side *sides[2] = {&scene->codec.key, &scene->codec.value};
    const struct vulkan_buffer *regions[2] = {scene->keys, scene->values};
    struct counts counts = {0};
    for (uint32_t which = 0; which < 2; which++) {
        for (uint32_t row = 0; row < scene->rows; row++)
            for (uint32_t h = 0; h < KV_HEADS; h++) {
                size_t at = side_at(scene, sides[which], row, h);
                settle_slot(sides[which], slot_of(scene, row),
                            (const uint8_t *)regions[which]->mapped + at,
                            scene->expected[which] + at, &counts);
            }
        assert_memory_equal(regions[which]->mapped, scene->expected[which],
                            (size_t)SEQUENCES * BLOCKS * KV_HEADS * sides[which]->bytes);
    }
    const struct kv_quantization *quantization = &scene->c->quantization;
    print_message("%s, keys %g, values %g bits, heads of %u: %llu of %llu codes are neighbours\n",
                  quantization->scheme == KV_QUANT_UNIFORM ? "uniform" : "turboquant",
                  quantization->key_half_bits / 2.0, quantization->value_half_bits / 2.0,
                  scene->c->head_dim, (unsigned long long)counts.others,
                  (unsigned long long)counts.codes);
    assert_true((double)counts.others <= OTHER_MAX * (double)counts.codes);
}

static void run_case(struct vulkan_trial *trial, const struct codes_case *c)
{
    struct test_random random = {21};
    struct scene scene;
    make_scene(&scene, trial, &random, c);
    const struct vulkan_heads_task task = {
        .parts = VULKAN_HEADS_WRITE,
        .rows = scene.rows,
        .head_dim = c->head_dim,
        .kv_heads = KV_HEADS,
        .kv_group = 1,
        .codes = {.scheme = c->quantization.scheme,
                  .key_half_bits = c->quantization.key_half_bits,
                  .value_half_bits = c->quantization.value_half_bits,
                  .group_dims = kv_codec_group_size(&c->quantization, c->head_dim)}};
    const struct vulkan_heads_choice choice =
        vulkan_attention_policy_heads(&trial->device->facts, &task);
    const struct vulkan_rope_kv_write_push push = {
        .qkv = scene.kv->address,
        .keys = scene.keys->address,
        .values = scene.values->address,
        .rows = scene.step_rows->address,
        .sequences = scene.sequences->address,
        .tables = scene.tables->address,
        .stride = scene.columns,
        .value_offset = KV_HEADS * c->head_dim,
        .magnitude = 1.0f,
        .codec = scene.kv_tables->address,
    };
    vulkan_trial_run(trial, choice.shader, &choice.specialization, &push, sizeof push, choice.grid);
    compare(&scene);
    free(scene.expected[0]);
    free(scene.expected[1]);
    kv_codec_fini(&scene.codec);
    vulkan_trial_clear(trial);
}

static void writes_the_codecs_bytes(void **state)
{
    struct vulkan_trial trial;
    vulkan_trial_init(&trial, *state);
    for (size_t i = 0; i < CASES; i++)
        if (vulkan_fixture_share(*state) != VULKAN_SHARE_MATRIX || i < 3)
            run_case(&trial, &cases[i]);
    vulkan_trial_fini(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(writes_the_codecs_bytes)};
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
