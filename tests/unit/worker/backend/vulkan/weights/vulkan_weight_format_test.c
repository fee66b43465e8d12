/*
 * Packed weights have the values of the checkpoint's rows: every code, read from its documented bit
 * position, times its scale gives ggml_dequantize_row()'s value.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_random.h"
#include "worker/backend/host/ggml_dequantize.h"
#include "worker/backend/vulkan/weights/vulkan_weight_format.h"

enum { ROWS = 5, COLUMNS = 768 };

static uint32_t load_word(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

/* Column e of a block's plane, as the header describes it. */
static uint32_t plane_value(const uint8_t *plane, uint32_t bits, uint32_t e)
{
    if (bits == 4)
        return e < 16 ? plane[e] & 15u : (uint32_t)plane[e - 16] >> 4;
    if (bits == 2)
        return load_word(plane + 4 * (e / 16)) >> (8 * (e % 4) + 2 * (e % 16 / 4)) & 3;
    return load_word(plane) >> (8 * (e % 4) + e / 4) & 1;
}

/* Scales of the forms that have bytes. */
static float byte_scale(enum vulkan_weight_kind kind, const struct vulkan_weight_arrays *arrays,
                        uint32_t columns, uint32_t row, uint32_t column)
{
    uint64_t at = (uint64_t)row * columns + column;
    uint64_t high = vulkan_weight_format_high(kind, columns, 0x1000), block = at / 32;
    float factor;
    switch (vulkan_weight_format_facts(kind).scales) {
    case VULKAN_SCALES_BYTES:
        return ggml_f16_to_f32(ggml_load_u16(arrays->scales + 2 * (at / 256))) *
               (float)(int8_t)arrays->high[at / vulkan_weight_format_facts(kind).span];
    case VULKAN_SCALES_E8M0:
        return ggml_f16_to_f32((uint16_t)GGML_E8M0_HALF((int)arrays->scales[block]));
    default: break;
    }
    assert_true(high % 16 > 0 && high - high % 16 == 0x1000);
    memcpy(&factor, arrays->high + sizeof factor * (block >> high % 16), sizeof factor);
    return ggml_e4m3_to_f32(arrays->scales[at / 16]) * factor;
}

static float packed_value(enum vulkan_weight_kind kind, const struct vulkan_weight_arrays *arrays,
                          uint32_t columns, uint32_t row, uint32_t column)
{
    struct vulkan_weight_facts facts = vulkan_weight_format_facts(kind);
    uint32_t block = row * (columns / 32) + column / 32;
    uint32_t span = row * (columns / facts.span) + column / facts.span;
    int32_t code;
    if (facts.code_bits == 8)
        code = (int8_t)arrays->codes[32 * (uint64_t)block + column % 32];
    else
        code = (int32_t)plane_value(arrays->codes + 4 * facts.code_bits * (uint64_t)block,
                                    facts.code_bits, column % 32);
    if (facts.high_bits != 0)
        code |= (int32_t)(plane_value(arrays->high + 4 * facts.high_bits * (uint64_t)block,
                                      facts.high_bits, column % 32)
                          << facts.code_bits);
    uint32_t table = ggml_type_layout(facts.type).table;
    if (table != 0)
        code = ggml_table_number(table, (uint32_t)code);
    if (facts.scales != VULKAN_SCALES_HALF)
        return byte_scale(kind, arrays, columns, row, column) * (float)code;
    const uint8_t *scales = arrays->scales + (facts.minimum ? 4 : 2) * (uint64_t)span;
    float minimum = facts.minimum ? ggml_f16_to_f32(ggml_load_u16(scales + 2)) : 0.0f;
    if (facts.zero)
        return ggml_f16_to_f32(ggml_load_u16(scales)) * ((float)code - minimum);
    return ggml_f16_to_f32(ggml_load_u16(scales)) * (float)(code - (int32_t)facts.center) + minimum;
}

/* Random bytes; the f16 scales of a quantized type are small and finite. Float types: GGML_F32. */
static uint8_t *random_rows(struct test_random *random, enum ggml_type type, uint64_t bytes)
{
    uint8_t *rows = malloc(bytes);
    assert_non_null(rows);
    for (uint64_t i = 0; i < bytes; i++)
        rows[i] = (uint8_t)test_random_next(random);
    if (type == GGML_F32)
        return rows;
    struct ggml_layout layout = ggml_type_layout(type);
    const float factor = -1000.0f;
    for (uint64_t at = 0; at < bytes && layout.table == GGML_TABLE_E2M1; at += layout.bytes) {
        if (type == GGML_MXFP4) {
            rows[at] = (uint8_t)(GGML_E8M0_MIN + rows[at] % 30);
            continue;
        }
        memcpy(rows + at, &factor, sizeof factor);
        for (uint32_t i = 4; i < 6; i++)
            rows[at + i] &= (rows[at + i] & 0x7f) == 0x7f ? 0xbf : 0xff;
    }
    for (uint64_t at = 0; at < bytes && layout.table != GGML_TABLE_E2M1; at += layout.bytes)
        for (uint32_t i = 0; i < 1u + layout.minimum; i++) { /* exponents 2^-11 .. 2^-8 */
            uint8_t *top = rows + at + layout.offset + 2 * i + 1;
            *top = (uint8_t)((*top & 0x8f) | 0x10 | (*top & 0x0c));
        }
    for (uint64_t at = 0; at < bytes && layout.zero; at += layout.bytes) {
        uint16_t zero = ggml_f32_to_f16((float)(rows[at + layout.offset + 2] & 15));
        memcpy(rows + at + layout.offset + 2, &zero, sizeof zero);
    }
    return rows;
}

static void check_quantized(struct test_random *random, enum vulkan_weight_kind kind)
{
    enum ggml_type type = vulkan_weight_format_facts(kind).type;
    uint64_t row_bytes = ggml_row_bytes(type, COLUMNS);
    uint8_t *source = random_rows(random, type, ROWS * row_bytes);
    struct vulkan_weight_bytes bytes = vulkan_weight_format_bytes(kind, ROWS, COLUMNS);
    struct vulkan_weight_bytes stride = vulkan_weight_format_row_bytes(kind, COLUMNS);
    struct vulkan_weight_arrays arrays = {malloc(bytes.codes), malloc(bytes.high + 1),
                                          malloc(bytes.scales)};
    assert_true(arrays.codes && arrays.high && arrays.scales);
    /* In two slices, the later one first. */
    struct vulkan_weight_arrays tail = {arrays.codes + 2 * stride.codes,
                                        arrays.high + 2 * stride.high,
                                        arrays.scales + 2 * stride.scales};
    vulkan_weight_format_pack(kind, source + 2 * row_bytes, ROWS - 2, COLUMNS, &tail);
    vulkan_weight_format_pack(kind, source, 2, COLUMNS, &arrays);
    for (uint32_t r = 0; r < ROWS; r++) {
        float expected[COLUMNS];
        ggml_dequantize_row(type, source + r * row_bytes, COLUMNS, expected);
        for (uint32_t c = 0; c < COLUMNS; c++) {
            float value = packed_value(kind, &arrays, COLUMNS, r, c);
            /* K types' scales and minimums are rounded to f16 (2^-11 of each), A8's minimums;
             * NVFP4's factors here are the inverse of numbers that divide. */
            bool products = ggml_type_layout(type).sub_scales && ggml_type_layout(type).table == 0;
            bool rounded = products || type == GGML_A8 || type == GGML_A8_64;
            float slack = rounded ? 2.0f : type == GGML_NVFP4 ? 1e-3f : 1e-5f;
            float bound = slack * 0x1p-11f * (fabsf(expected[c]) + 0.5f) + 1e-7f;
            if (!(fabsf(value - expected[c]) <= bound))
                fail_msg("%s [%u, %u]: %.9g, expected %.9g", ggml_type_name(type), r, c,
                         (double)value, (double)expected[c]);
        }
    }
    free(source);
    free(arrays.codes);
    free(arrays.high);
    free(arrays.scales);
}

static void test_quantized_kinds_mean_the_checkpoints_values(void **state)
{
    (void)state;
    struct test_random random = {41};
    for (uint32_t kind = 0; kind < VULKAN_WEIGHT_KIND_COUNT; kind++)
        if (vulkan_weight_format_facts((enum vulkan_weight_kind)kind).quantized)
            check_quantized(&random, (enum vulkan_weight_kind)kind);
}

/* Random codes; only the blocks with NaNs have a scale that is one. */
static void check_f8(struct test_random *random, enum vulkan_weight_kind kind)
{
    struct vulkan_weight_facts facts = vulkan_weight_format_facts(kind);
    struct ggml_block block = ggml_type_block(facts.type);
    struct vulkan_weight_bytes bytes = vulkan_weight_format_bytes(kind, ROWS, COLUMNS);
    const uint32_t blocks = ROWS * COLUMNS / block.elements;
    uint8_t *source = malloc(blocks * block.bytes);
    struct vulkan_weight_arrays arrays = {.codes = malloc(bytes.codes),
                                          .scales = malloc(bytes.scales)};
    assert_true(source && arrays.codes && arrays.scales);
    assert_int_equal(bytes.codes, ROWS * COLUMNS);
    assert_int_equal(bytes.scales, (blocks * sizeof(float) + 15) / 16 * 16);
    assert_int_equal(bytes.high, 0);
    for (uint32_t b = 0; b < blocks; b++) {
        uint8_t *at = source + b * block.bytes;
        float scale = (float)(b + 1) * 0x1p-140f; /* subnormal ones too */
        memcpy(at, &scale, sizeof scale);
        for (uint32_t i = 0; i < block.elements; i++) {
            uint8_t code = (uint8_t)test_random_next(random);
            at[sizeof scale + i] = (code & 0x7f) == 0x7f ? 0x7e : code;
        }
        if (b % 3 == 1)
            at[sizeof scale + test_random_next(random) % block.elements] = b % 2 ? 0x7f : 0xff;
    }
    vulkan_weight_format_pack(kind, source, ROWS, COLUMNS, &arrays);
    for (uint32_t b = 0; b < blocks; b++) {
        const uint8_t *at = source + b * block.bytes;
        float scale;
        memcpy(&scale, arrays.scales + b * sizeof scale, sizeof scale);
        assert_true(b % 3 == 1 ? isnan(scale) : scale == (float)(b + 1) * 0x1p-140f);
        assert_memory_equal(arrays.codes + b * block.elements, at + sizeof scale, block.elements);
    }
    free(source);
    free(arrays.codes);
    free(arrays.scales);
}

static void test_f8_blocks_with_nans_have_a_scale_that_is_one(void **state)
{
    (void)state;
    struct test_random random = {44};
    check_f8(&random, VULKAN_WEIGHT_F8_128);
    check_f8(&random, VULKAN_WEIGHT_F8_32);
}

/* Every power of E8M0 that a matrix may have is a half; a block of zeros gets the nearest one. */
static void test_powers_are_halves(void **state)
{
    (void)state;
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint8_t block[17] = {(uint8_t)byte}, codes[16], scale;
        const struct vulkan_weight_arrays arrays = {.codes = codes, .scales = &scale};
        vulkan_weight_format_pack(VULKAN_WEIGHT_MXFP4, block, 1, 32, &arrays);
        uint32_t within = byte < GGML_E8M0_MIN ? GGML_E8M0_MIN : byte;
        within = within > GGML_E8M0_MAX ? GGML_E8M0_MAX : within;
        assert_int_equal(scale, within);
        float power = ggml_f16_to_f32((uint16_t)GGML_E8M0_HALF((int)within));
        assert_true(power == ldexpf(1.0f, (int)within - 128));
    }
}

/* One scale that is NaN makes the factors of its row NaN, and no other's. */
static void test_nvfp4_rows_with_nans_have_a_factor_that_is_one(void **state)
{
    (void)state;
    struct test_random random = {45};
    const enum vulkan_weight_kind kind = VULKAN_WEIGHT_NVFP4;
    const uint64_t row_bytes = ggml_row_bytes(GGML_NVFP4, COLUMNS);
    uint8_t *source = random_rows(&random, GGML_NVFP4, ROWS * row_bytes);
    struct vulkan_weight_bytes bytes = vulkan_weight_format_bytes(kind, ROWS, COLUMNS);
    struct vulkan_weight_bytes stride = vulkan_weight_format_row_bytes(kind, COLUMNS);
    struct vulkan_weight_arrays arrays = {malloc(bytes.codes), malloc(bytes.high),
                                          malloc(bytes.scales)};
    assert_true(arrays.codes && arrays.high && arrays.scales);
    source[2 * row_bytes + 22 * 7 + 5] = 0xff;
    vulkan_weight_format_pack(kind, source, ROWS, COLUMNS, &arrays);
    for (uint32_t i = 0; i < ROWS * stride.high / 4; i++) {
        float factor;
        memcpy(&factor, arrays.high + 4 * (uint64_t)i, sizeof factor);
        if (4 * i / stride.high == 2)
            assert_true(isnan(factor));
        else
            assert_true(factor == 0.5f / 1000.0f);
    }
    free(source);
    free(arrays.codes);
    free(arrays.high);
    free(arrays.scales);
}

static void test_float_rows_are_padded_with_zeros(void **state)
{
    (void)state;
    struct test_random random = {42};
    for (uint32_t columns = 1; columns < 20; columns++)
        for (uint32_t k = VULKAN_WEIGHT_F32; k <= VULKAN_WEIGHT_BF16; k++) {
            enum vulkan_weight_kind kind = (enum vulkan_weight_kind)k;
            uint64_t row_bytes = ggml_row_bytes(vulkan_weight_format_facts(kind).type, columns);
            uint64_t stride = vulkan_weight_format_row_bytes(kind, columns).codes;
            uint8_t *source = random_rows(&random, GGML_F32, 3 * row_bytes);
            uint8_t packed[3 * 80];
            struct vulkan_weight_arrays arrays = {.codes = packed};
            memset(packed, 0xff, sizeof packed);
            assert_int_equal(stride % VULKAN_WEIGHT_ALIGN_BYTES, 0);
            assert_int_equal(vulkan_weight_format_bytes(kind, 3, columns).codes, 3 * stride);
            vulkan_weight_format_pack(kind, source, 3, columns, &arrays);
            for (uint64_t r = 0; r < 3; r++)
                for (uint64_t i = 0; i < stride; i++)
                    assert_int_equal(packed[r * stride + i],
                                     i < row_bytes ? source[r * row_bytes + i] : 0);
            free(source);
        }
}

static void test_sizes_are_what_the_bits_say(void **state)
{
    (void)state;
    struct vulkan_weight_bytes bytes = vulkan_weight_format_bytes(VULKAN_WEIGHT_Q4_0, 3, 96);
    assert_int_equal(bytes.codes, 3 * 96 / 2);
    assert_int_equal(bytes.high, 0);
    assert_int_equal(bytes.scales, 32); /* 18 rounded up */
    bytes = vulkan_weight_format_bytes(VULKAN_WEIGHT_Q6_K, 2, 256);
    assert_int_equal(bytes.codes, 256);
    assert_int_equal(bytes.high, 128);
    assert_int_equal(bytes.scales, 64);
    bytes = vulkan_weight_format_bytes(VULKAN_WEIGHT_Q2_K, 1, 256);
    assert_int_equal(bytes.codes, 64);
    assert_int_equal(bytes.scales, 64);
    bytes = vulkan_weight_format_row_bytes(VULKAN_WEIGHT_A6_64, 512);
    assert_int_equal(8 * (bytes.codes + bytes.high + bytes.scales), 512 * 6 + 8 * 32);
    bytes = vulkan_weight_format_row_bytes(VULKAN_WEIGHT_Z4_128, 512);
    assert_int_equal(8 * (bytes.codes + bytes.high + bytes.scales), 512 * 4 + 4 * 32);
    bytes = vulkan_weight_format_row_bytes(VULKAN_WEIGHT_IQ4_XS, 512);
    assert_int_equal(8 * (bytes.codes + bytes.high + bytes.scales), 512 * 4 + 8 * 16 + 16 * 2);
    bytes = vulkan_weight_format_row_bytes(VULKAN_WEIGHT_MXFP4, 512);
    assert_int_equal(8 * (bytes.codes + bytes.high + bytes.scales), 512 * 17 / 4);
    bytes = vulkan_weight_format_row_bytes(VULKAN_WEIGHT_NVFP4, 512);
    assert_int_equal(8 * (bytes.codes + bytes.high + bytes.scales), 512 * 9 / 2 + 32);
    bytes = vulkan_weight_format_row_bytes(VULKAN_WEIGHT_NVFP4, 32 * 45);
    assert_int_equal(bytes.high, 45 * 4);
    assert_int_equal(vulkan_weight_format_kind(GGML_BF16), VULKAN_WEIGHT_BF16);
    assert_int_equal(vulkan_weight_format_kind(GGML_Q6_K), VULKAN_WEIGHT_Q6_K);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantized_kinds_mean_the_checkpoints_values),
        cmocka_unit_test(test_f8_blocks_with_nans_have_a_scale_that_is_one),
        cmocka_unit_test(test_powers_are_halves),
        cmocka_unit_test(test_nvfp4_rows_with_nans_have_a_factor_that_is_one),
        cmocka_unit_test(test_float_rows_are_padded_with_zeros),
        cmocka_unit_test(test_sizes_are_what_the_bits_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
