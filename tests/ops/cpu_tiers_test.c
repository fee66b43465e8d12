/*
 * Every instruction-set tier that this CPU offers agrees with the portable tier to the last few
 * bits: matrix products of every type, quantization, norms, gates, f16. The tiers of AArch64 agree
 * with each other in all bits of products. Prints which tiers ran, so that a log shows what was
 * covered.
 */
// tags: arm-tiers
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/op_fixture.h"
#include "tests/support/row_expect.h"

#include "worker/backend/host/ggml_dequantize.h"

enum { ROWS = 13, COLUMNS = 768, OUTPUTS = 32 };

/* Continues a hash (FNV-1a) with the bits of `count` floats. */
static uint64_t hash_bits(uint64_t hash, const float *values, uint32_t count)
{
    const unsigned char *bytes = (const void *)values;
    for (size_t i = 0; i < count * sizeof *values; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* Returns a hash of the outputs' bits. */
static uint64_t compare_linear(const struct cpu_kernels *kernels, enum ggml_type type,
                               float outlier)
{
    uint64_t hash = 0xcbf29ce484222325u;
    struct plan_sketch *s = plan_sketch_create(type);
    plan_weight_id id = plan_sketch_weight(s, type, OUTPUTS, COLUMNS);
    struct packed_weight packed = packed_weight_describe(type, 1, OUTPUTS, COLUMNS);
    static float x[ROWS * COLUMNS];
    static struct quantized_block blocks[ROWS * COLUMNS / 32];
    float expected[ROWS * 16], actual[ROWS * 16], add[ROWS * 16];
    packed.data = aligned_alloc(64, packed_weight_bytes(&packed));
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++)
        x[i] =
            plan_sketch_uniform(s) * (i % 97 == 0 ? 30.0f : 1.0f); /* some blocks have an outlier */
    for (uint32_t i = 0; i < ROWS * 16; i++)
        add[i] = plan_sketch_uniform(s);
    cpu_kernels_choose(CPU_TIER_PORTABLE)->quantize(x, ROWS * COLUMNS, outlier, blocks);
    for (uint32_t group = 0; group < packed.groups; group++) {
        packed_weight_fill_group(&packed, type, plan_sketch_plan(s)->weights[id].data, group);
        struct linear_tile tile = {.group = packed.data + group * packed.group_bytes,
                                   .columns = COLUMNS,
                                   .rows = ROWS,
                                   .x = packed.quantized ? (const void *)blocks : x,
                                   .x_stride_bytes =
                                       packed.quantized ? sizeof blocks / ROWS : sizeof x / ROWS,
                                   .add = group == 0 ? NULL : add,
                                   .out = expected,
                                   .out_stride = 16};
        double reference[ROWS * 16];
        cpu_kernels_choose(CPU_TIER_PORTABLE)->linear[packed.kind](&tile);
        tile.out = actual;
        kernels->linear[packed.kind](&tile);
        for (uint32_t i = 0; i < ROWS * 16; i++)
            reference[i] = (double)expected[i];
        row_expect_close(ggml_type_name(type), actual, reference, ROWS * 16, 2e-6);
        hash = hash_bits(hash, actual, ROWS * 16);
    }
    free(packed.data);
    plan_sketch_destroy(s);
    return hash;
}

static void compare_rows(const struct cpu_kernels *kernels)
{
    struct plan_sketch *s = plan_sketch_create(9);
    float x[COLUMNS];
    struct quantized_block expected[COLUMNS / 32], actual[COLUMNS / 32];
    uint16_t halves[2][COLUMNS];
    for (uint32_t i = 0; i < COLUMNS; i++)
        x[i] = plan_sketch_uniform(s) * (i % 5 == 0 ? 1e6f : 1.0f);
    memset(x + 64, 0, 32 * sizeof *x);
    x[100] = NAN;
    x[200] = 1e-42f; /* subnormal */
    cpu_kernels_choose(CPU_TIER_PORTABLE)->quantize(x, COLUMNS, QUANTIZE_OUTLIER, expected);
    kernels->quantize(x, COLUMNS, QUANTIZE_OUTLIER, actual);
    for (uint32_t b = 0; b < COLUMNS / 32; b++) {
        if (b == 3) /* the values of a block with a NaN are unspecified */
            continue;
        assert_memory_equal(&expected[b], &actual[b], sizeof expected[b]);
    }
    x[100] = -1e8f; /* an outlier; with a NaN in the row no block has one */
    cpu_kernels_choose(CPU_TIER_PORTABLE)->quantize(x, COLUMNS, QUANTIZE_OUTLIER, expected);
    kernels->quantize(x, COLUMNS, QUANTIZE_OUTLIER, actual);
    assert_true(expected[3].term[1].scale > 0.0f);
    assert_memory_equal(expected, actual, sizeof expected);
    cpu_kernels_choose(CPU_TIER_PORTABLE)->quantize(x, COLUMNS, QUANTIZE_ALL, expected);
    kernels->quantize(x, COLUMNS, QUANTIZE_ALL, actual);
    assert_memory_equal(expected, actual, sizeof expected);
    cpu_kernels_choose(CPU_TIER_PORTABLE)->to_f16(x, COLUMNS - 3, halves[0]);
    kernels->to_f16(x, COLUMNS - 3, halves[1]);
    assert_memory_equal(halves[0], halves[1], (COLUMNS - 3) * sizeof halves[0][0]);
    plan_sketch_destroy(s);
}

static void test_tiers_agree_with_the_portable_one(void **state)
{
    (void)state;
    uint64_t neon[GGML_TYPE_END][2] = {0};
    for (uint32_t i = 0; i < OP_FIXTURE_TIERS; i++) {
        const struct cpu_kernels *kernels = cpu_kernels_choose(op_fixture_tier(i));
        print_message("tier %s: %s\n", cpu_tier_name(op_fixture_tier(i)),
                      kernels ? "runs" : "not on this CPU");
        if (!kernels)
            continue;
        assert_int_equal(kernels->tier, op_fixture_tier(i));
        compare_rows(kernels);
        for (int type = 0; type < GGML_TYPE_END; type++) {
            if (ggml_type_block((enum ggml_type)type).elements == 0)
                continue;
            const uint64_t hashes[2] = {
                compare_linear(kernels, (enum ggml_type)type, QUANTIZE_OUTLIER),
                compare_linear(kernels, (enum ggml_type)type, QUANTIZE_ALL)};
            if (kernels->tier == CPU_TIER_NEON)
                memcpy(neon[type], hashes, sizeof hashes);
            if (kernels->tier == CPU_TIER_DOTPROD || kernels->tier == CPU_TIER_I8MM)
                assert_memory_equal(neon[type], hashes, sizeof hashes);
        }
    }
}

static void check_sums(const struct quantized_term *term)
{
    int32_t sums[2] = {0, 0};
    for (uint32_t i = 0; i < 32; i++)
        sums[i / 16] += term->quants[i];
    for (uint32_t h = 0; h < 2; h++) {
        assert_int_equal(term->pair_sums[h][0], sums[h]);
        assert_int_equal(term->pair_sums[h][1], sums[h]);
    }
    assert_true(term->sum == term->scale * (float)(sums[0] + sums[1]));
}

/* `outlier`: only block `standing` has a second term; QUANTIZE_ALL: all except a block of zeros. */
static void check_quantized(float outlier, uint32_t standing)
{
    struct plan_sketch *s = plan_sketch_create(10);
    float x[COLUMNS];
    struct quantized_block blocks[COLUMNS / 32];
    for (uint32_t i = 0; i < COLUMNS; i++)
        x[i] = i / 32 == 5 ? 0.0f : plan_sketch_uniform(s);
    x[32 * standing + 6] = -25.0f; /* the root mean square is near 1 */
    cpu_kernels_choose(CPU_TIER_BEST)->quantize(x, COLUMNS, outlier, blocks);
    for (uint32_t b = 0; b < COLUMNS / 32; b++) {
        const struct quantized_term *term = blocks[b].term;
        float finest = term[1].scale > 0.0f ? term[1].scale : term[0].scale;
        assert_int_equal(term[1].scale > 0.0f,
                         b == standing || (outlier == QUANTIZE_ALL && b != 5));
        for (uint32_t i = 0; i < 32; i++) {
            float value =
                (float)term[0].quants[i] * term[0].scale + (float)term[1].quants[i] * term[1].scale;
            assert_true(fabsf(value - x[32 * b + i]) <= 0.51f * finest);
        }
        check_sums(&term[0]);
        check_sums(&term[1]);
    }
    plan_sketch_destroy(s);
}

static void test_quantized_blocks_decode_to_their_values(void **state)
{
    (void)state;
    check_quantized(QUANTIZE_OUTLIER, 2);
    check_quantized(QUANTIZE_ALL, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiers_agree_with_the_portable_one),
        cmocka_unit_test(test_quantized_blocks_decode_to_their_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
