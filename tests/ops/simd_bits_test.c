/*
 * The kernels of attention and of rows give the same bits on AVX2 and on NEON: hashes of their results for
 * random numbers are those recorded on x86-64. A query's bits do not depend on the other queries of a call, and the
 * result is that of the portable kernel.
 *
 * The hashes were printed by this test on an AMD EPYC (Debian 12, gcc 12.2), 2026-11-29.
 */
// tags: arm
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/op_fixture.h"
#include "tests/support/row_expect.h"
#include "tests/support/test_random.h"

#include "worker/backend/host/ggml_dequantize.h"

enum { POSITIONS = 176, BLOCKS = POSITIONS / KV_BLOCK_TOKENS, DIM_MAX = 144, COLUMNS_MAX = 160 };

static const uint64_t ATTENTION_HASH = 0xceeffe112beab1cdu;
static const uint64_t ROWS_HASH = 0x60e412587f01784fu;

struct attention_shape {
    uint32_t rows;
    uint32_t heads;
    uint32_t head_dim;
    uint32_t first_position;
    uint32_t window;
    float magnitude; /* of queries */
    float soft_cap;
    bool sinks;
    bool latent;
    bool all_ends; /* each row sees two positions after its own */
    enum kv_cache_type type;
    struct kv_quantization quantization;
};

static const struct attention_shape SHAPES[] = {
    {.rows = 1, .heads = 3, .head_dim = 64, .first_position = 170, .magnitude = 1},
    {.rows = 5, .heads = 3, .head_dim = 128, .first_position = 60, .magnitude = 3},
    {.rows = 2,
     .heads = 7,
     .head_dim = 80,
     .first_position = 126,
     .window = 40,
     .magnitude = 1,
     .sinks = true,
     .type = KV_CACHE_F32},
    {.rows = 16,
     .heads = 1,
     .head_dim = 20,
     .first_position = 0,
     .magnitude = 10,
     .soft_cap = 5,
     .sinks = true},
    {.rows = 3,
     .heads = 2,
     .head_dim = 5,
     .first_position = 100,
     .magnitude = 100,
     .all_ends = true},
    {.rows = 4, .heads = 4, .head_dim = 144, .first_position = 33, .magnitude = 1, .latent = true},
    {.rows = 1,
     .heads = 5,
     .head_dim = 44,
     .first_position = 90,
     .magnitude = 2,
     .latent = true,
     .type = KV_CACHE_F32},
    {.rows = 3,
     .heads = 3,
     .head_dim = 64,
     .first_position = 70,
     .magnitude = 1,
     .quantization = {KV_QUANT_UNIFORM, 16, 8, 0, 0}},
    {.rows = 1,
     .heads = 5,
     .head_dim = 64,
     .first_position = 150,
     .magnitude = 1,
     .quantization = {KV_QUANT_UNIFORM, 10, 14, 32, 0}},
    {.rows = 13,
     .heads = 1,
     .head_dim = 80,
     .first_position = 40,
     .magnitude = 1,
     .window = 30,
     .quantization = {KV_QUANT_UNIFORM, 4, 6, 0, 0}},
    {.rows = 2,
     .heads = 1,
     .head_dim = 64,
     .first_position = 80,
     .magnitude = 1,
     .quantization = {KV_QUANT_UNIFORM, 12, 12, 32, 0}},
    {.rows = 2,
     .heads = 8,
     .head_dim = 64,
     .first_position = 70,
     .magnitude = 1,
     .quantization = {KV_QUANT_TURBOQUANT, 6, 8, 0, 0}},
    {.rows = 1,
     .heads = 4,
     .head_dim = 128,
     .first_position = 130,
     .magnitude = 1,
     .soft_cap = 30,
     .quantization = {KV_QUANT_TURBOQUANT, 7, 3, 0, 0}},
    {.rows = 1,
     .heads = 2,
     .head_dim = 64,
     .first_position = 110,
     .magnitude = 1,
     .sinks = true,
     .quantization = {KV_QUANT_TURBOQUANT, 2, 4, 0, 0}},
};

struct scene {
    const struct attention_shape *shape;
    struct attention_tile tile;
    struct kv_codec codec;
    uint32_t table[BLOCKS];
    uint32_t ends[ATTENTION_QUERIES];
    float sinks[ATTENTION_QUERIES];
    float queries[ATTENTION_QUERIES * DIM_MAX];
    float out[ATTENTION_QUERIES * DIM_MAX];
    uint8_t *cache;
};

static float uniform(struct test_random *random)
{
    return (float)(test_random_next(random) >> 40) * 0x1p-23f - 1.0f;
}

/* Continues a hash (FNV-1a). */
static uint64_t hash_bytes(uint64_t hash, const void *memory, size_t count)
{
    const unsigned char *bytes = memory;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static const struct cpu_kernels *simd_kernels(void)
{
    const struct cpu_kernels *kernels = cpu_kernels_choose(CPU_TIER_BEST);
    if (kernels->tier == CPU_TIER_PORTABLE)
        skip();
    print_message("tier %s\n", kernels->name);
    return kernels;
}

/* Random codes; scales, biases and levels that no library function computes. */
static void fill_side(struct test_random *random, struct kv_side *side, uint8_t *memory)
{
    test_random_fill(random, memory, side->bytes);
    for (uint32_t i = 0; i < side->scales * KV_BLOCK_TOKENS * (side->biased ? 2 : 1); i++) {
        uint16_t half = ggml_f32_to_f16(uniform(random) * (side->biased ? 0.05f : 1.0f));
        memcpy(memory + side->scale_offset + 2 * (size_t)i, &half, sizeof half);
    }
    for (uint32_t c = 0; side->rotated && c < 2; c++)
        for (uint32_t i = 0; i < KV_CODEBOOK_LEVELS_MAX; i++)
            side->codebooks[c].levels[i] = ((float)i - 7.5f) * (c == 0 ? 0.0625f : 0.03125f);
}

static void fill_cache(struct test_random *random, struct scene *s)
{
    const struct attention_shape *shape = s->shape;
    const size_t elements = (size_t)KV_BLOCK_TOKENS * shape->head_dim * (shape->latent ? 1 : 2);
    const bool codes = shape->quantization.scheme != KV_QUANT_NONE;
    if (codes)
        kv_codec_init(&s->codec, &shape->quantization, shape->head_dim);
    s->tile.block_bytes = codes ? s->codec.key.bytes + s->codec.value.bytes
                                : elements * (shape->type == KV_CACHE_F16 ? 2 : 4);
    s->cache = calloc(BLOCKS * s->tile.block_bytes + 64, 1);
    for (uint32_t b = 0; b < BLOCKS; b++) {
        uint8_t *block = s->cache + b * s->tile.block_bytes;
        s->table[b] = (7 * b + 3) % BLOCKS;
        if (codes) {
            fill_side(random, &s->codec.key, block);
            fill_side(random, &s->codec.value, block + s->codec.key.bytes);
        }
        for (size_t i = 0; !codes && i < elements; i++) {
            float x = uniform(random);
            uint16_t half = ggml_f32_to_f16(x);
            if (shape->type == KV_CACHE_F16)
                memcpy(block + 2 * i, &half, sizeof half);
            else
                memcpy(block + 4 * i, &x, sizeof x);
        }
    }
}

static void open_scene(struct test_random *random, struct scene *s,
                       const struct attention_shape *shape)
{
    *s = (struct scene){.shape = shape};
    fill_cache(random, s);
    for (uint32_t i = 0; i < ATTENTION_QUERIES * DIM_MAX; i++)
        s->queries[i] = uniform(random) * shape->magnitude;
    for (uint32_t m = 0; m < ATTENTION_QUERIES; m++) {
        s->sinks[m] = uniform(random);
        s->ends[m] = shape->first_position + m + 3;
    }
    const size_t floats = attention_scratch_floats(shape->head_dim, shape->latent);
    s->tile = (struct attention_tile){
        .queries = s->queries,
        .query_stride = (size_t)shape->heads * shape->head_dim,
        .out = s->out,
        .out_stride = (size_t)shape->heads * shape->head_dim,
        .rows = shape->rows,
        .heads = shape->heads,
        .head_dim = shape->head_dim,
        .first_position = shape->first_position,
        .ends = shape->all_ends ? s->ends : NULL,
        .window = shape->window,
        .scale = 0.125f,
        .soft_cap = shape->soft_cap,
        .sinks = shape->sinks ? s->sinks : NULL,
        .cache_type = shape->type,
        .codec = shape->quantization.scheme == KV_QUANT_NONE ? NULL : &s->codec,
        .latent = shape->latent,
        .cache = s->cache,
        .block_bytes = s->tile.block_bytes,
        .block_table = s->table,
        .scratch = aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64),
    };
}

static void close_scene(struct scene *s)
{
    if (s->tile.codec)
        kv_codec_fini(&s->codec);
    free(s->tile.scratch);
    free(s->cache);
}

/* Each query in a call of its own. */
static void expect_same_alone(const struct cpu_kernels *kernels, const struct scene *s)
{
    for (uint32_t row = 0; row < s->shape->rows; row++) {
        for (uint32_t head = 0; head < s->shape->heads; head++) {
            const size_t at = row * s->tile.out_stride + (size_t)head * s->shape->head_dim;
            float out[DIM_MAX];
            struct attention_tile tile = s->tile;
            tile.queries += at;
            tile.out = out;
            tile.rows = tile.heads = 1;
            tile.first_position += row;
            tile.ends = tile.ends ? tile.ends + row : NULL;
            tile.sinks = tile.sinks ? tile.sinks + head : NULL;
            kernels->attention(&tile);
            assert_memory_equal(out, s->out + at, s->shape->head_dim * sizeof *out);
        }
    }
}

static void expect_near_portable(const struct scene *s)
{
    const uint32_t count = s->shape->rows * s->shape->heads * s->shape->head_dim;
    float out[ATTENTION_QUERIES * DIM_MAX];
    double expected[ATTENTION_QUERIES * DIM_MAX];
    struct attention_tile tile = s->tile;
    tile.out = out;
    cpu_kernels_choose(CPU_TIER_PORTABLE)->attention(&tile);
    for (uint32_t i = 0; i < count; i++)
        expected[i] = (double)out[i];
    row_expect_close("attention", s->out, expected, count, 1e-5);
}

static void test_attention_has_the_same_bits(void **state)
{
    (void)state;
    const struct cpu_kernels *kernels = simd_kernels();
    static struct scene scene;
    struct test_random random = {26};
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t i = 0; i < sizeof SHAPES / sizeof SHAPES[0]; i++) {
        open_scene(&random, &scene, &SHAPES[i]);
        kernels->attention(&scene.tile);
        hash = hash_bytes(hash, scene.out,
                          SHAPES[i].rows * SHAPES[i].heads * SHAPES[i].head_dim * sizeof(float));
        expect_same_alone(kernels, &scene);
        expect_near_portable(&scene);
        close_scene(&scene);
    }
    print_message("attention: %#llx\n", (unsigned long long)hash);
    assert_true(hash == ATTENTION_HASH);
}

/* The kernels over `columns` columns that begin anywhere. */
static uint64_t hash_rows(uint64_t hash, const struct cpu_kernels *kernels, const float *x,
                          const float *weight, uint32_t columns)
{
    float out[COLUMNS_MAX];
    uint16_t halves[COLUMNS_MAX];
    const size_t bytes = columns * sizeof *out;
    kernels->rms_norm(x, weight, 1.0f, 1e-5f, NULL, columns, out);
    hash = hash_bytes(hash, out, bytes);
    kernels->rms_norm(x, weight, 0.0f, 1e-5f, weight, columns, out);
    hash = hash_bytes(hash, out, bytes);
    kernels->layer_norm(x, weight, 0.0f, 1e-5f, columns, out);
    hash = hash_bytes(hash, out, bytes);
    kernels->gate(GATE_SILU, x, weight, columns, out);
    hash = hash_bytes(hash, out, bytes);
    kernels->gate(GATE_GELU_TANH, x, weight, columns, out);
    hash = hash_bytes(hash, out, bytes);
    kernels->soft_cap(x, 2.0f, 3.0f, columns, out);
    hash = hash_bytes(hash, out, bytes);
    kernels->soft_cap(x, 0.7f, 0.0f, columns, out);
    hash = hash_bytes(hash, out, bytes);
    kernels->to_f16(x, columns, halves);
    return hash_bytes(hash, halves, columns * sizeof *halves);
}

static void test_rows_have_the_same_bits(void **state)
{
    (void)state;
    const struct cpu_kernels *kernels = simd_kernels();
    struct test_random random = {27};
    uint64_t hash = 0xcbf29ce484222325u;
    float x[COLUMNS_MAX], weight[COLUMNS_MAX];
    struct quantized_block blocks[COLUMNS_MAX / 32];
    for (uint32_t i = 0; i < 200; i++) {
        const uint32_t columns = 1 + test_random_below(&random, COLUMNS_MAX);
        for (uint32_t c = 0; c < COLUMNS_MAX; c++) {
            const int exponent = (int)test_random_below(&random, 12) - 5;
            x[c] = ldexpf(uniform(&random), exponent);
            weight[c] = uniform(&random);
        }
        x[test_random_below(&random, COLUMNS_MAX)] = ldexpf(1.0f, 17); /* beyond f16 */
        x[test_random_below(&random, COLUMNS_MAX)] = ldexpf(1.0f, -22);
        hash = hash_rows(hash, kernels, x, weight, columns);
        kernels->quantize(x, COLUMNS_MAX, i % 2 == 0 ? QUANTIZE_OUTLIER : QUANTIZE_ALL, blocks);
        hash = hash_bytes(hash, blocks, sizeof blocks);
    }
    print_message("rows: %#llx\n", (unsigned long long)hash);
    assert_true(hash == ROWS_HASH);
}

/* What is not a number in f16 becomes one. */
static void test_f16_is_always_finite(void **state)
{
    (void)state;
    const float x[11] = {INFINITY, -INFINITY, NAN, -NAN, 65519.0f, 65520.0f, -1e30f, 1.0f, NAN};
    static const uint16_t expected[11] = {0x7bff, 0xfbff, 0x7bff, 0x7bff, 0x7bff, 0x7bff,
                                          0xfbff, 0x3c00, 0x7bff, 0,      0};
    for (uint32_t tier = 0; tier < OP_FIXTURE_TIERS; tier++) {
        const struct cpu_kernels *kernels = cpu_kernels_choose(op_fixture_tier(tier));
        uint16_t halves[11];
        if (!kernels)
            continue;
        kernels->to_f16(x, 11, halves);
        assert_memory_equal(halves, expected, sizeof halves);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_has_the_same_bits),
        cmocka_unit_test(test_rows_have_the_same_bits),
        cmocka_unit_test(test_f16_is_always_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
