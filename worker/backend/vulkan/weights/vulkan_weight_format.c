/*
 * Packs checkpoint rows for the device.
 *
 * A block is taken apart into codes and scales (ggml_unpack_quants(), ggml_unpack_scales()); codes
 * are then written as planes. Types with one scale per 32 columns are copied where the file's
 * nibbles or bytes already have the device's layout, because a checkpoint of many gigabytes passes
 * through here at every cold start.
 *
 * Infinities in a checkpoint's scales are passed through.
 */
#include "worker/backend/vulkan/weights/vulkan_weight_format.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/host/ggml_dequantize.h"

static const struct vulkan_weight_facts weight_facts[] = {
#define QUANT_FACTS(kind, name, number, columns, bytes, bits, span, minimum, center, offset,       \
                    table)                                                                         \
    [kind] = {GGML_##name,                                                                         \
              true,                                                                                \
              (minimum) != 0,                                                                      \
              (minimum) == 2,                                                                      \
              GGML_LOW_BITS(bits),                                                                 \
              (bits)-GGML_LOW_BITS(bits),                                                          \
              span,                                                                                \
              center,                                                                              \
              GGML_BYTE_SCALES(columns, table)                                                     \
                  ? VULKAN_SCALES_BYTES                                                            \
                  : (enum vulkan_weight_scales)GGML_SCALES(table, span)},
#define FLOAT_FACTS(kind, name, number, bits, scaled, table)                                       \
    [kind] = {GGML_##name, false, false, false, bits, 0, scaled, 0, VULKAN_SCALES_HALF},
    GGML_QUANT_LIST(QUANT_FACTS) GGML_FLOAT_LIST(FLOAT_FACTS)
#undef QUANT_FACTS
#undef FLOAT_FACTS
};
static_assert((int)VULKAN_SCALES_E8M0 == GGML_SCALES_E8M0 &&
                  (int)VULKAN_SCALES_E4M3 == GGML_SCALES_E4M3,
              "forms of scales are those of the list");
static_assert(sizeof weight_facts / sizeof *weight_facts == VULKAN_WEIGHT_KIND_COUNT,
              "kinds count up from 0 in the order of the lists");

enum vulkan_weight_kind vulkan_weight_format_kind(enum ggml_type type)
{
    for (uint32_t kind = 0; kind < VULKAN_WEIGHT_KIND_COUNT; kind++)
        if (weight_facts[kind].type == type)
            return (enum vulkan_weight_kind)kind;
    must_fail("a known weight type", __FILE__, __LINE__);
}

struct vulkan_weight_facts vulkan_weight_format_facts(enum vulkan_weight_kind kind)
{
    must(kind < VULKAN_WEIGHT_KIND_COUNT);
    return weight_facts[kind];
}

static uint64_t align_bytes(uint64_t bytes)
{
    uint64_t mask = VULKAN_WEIGHT_ALIGN_BYTES - 1;
    return (bytes + mask) & ~mask;
}

/* NVFP4: the logarithm of the blocks that share a place for their row's factor. */
static uint32_t factor_shift(uint32_t columns)
{
    uint32_t blocks = columns / VULKAN_WEIGHT_BLOCK_COLUMNS, shift = 0;
    while (shift < VULKAN_WEIGHT_ALIGN_BYTES - 1 && blocks >> shift > 0 &&
           (blocks >> shift) % 2 == 0)
        shift++;
    return shift;
}

struct vulkan_weight_bytes vulkan_weight_format_row_bytes(enum vulkan_weight_kind kind,
                                                          uint32_t columns)
{
    struct vulkan_weight_facts facts = vulkan_weight_format_facts(kind);
    struct vulkan_weight_bytes bytes = {0};
    must(columns % ggml_type_block(facts.type).elements == 0);
    if (!facts.quantized) {
        bytes.codes = align_bytes((uint64_t)columns * facts.code_bits / 8);
        bytes.scales = facts.span > 0 ? sizeof(float) * (uint64_t)(columns / facts.span) : 0;
        return bytes;
    }
    bytes.codes = (uint64_t)columns * facts.code_bits / 8;
    bytes.high = (uint64_t)columns * facts.high_bits / 8;
    bytes.scales = (uint64_t)columns / facts.span * (facts.minimum ? 4 : 2);
    if (facts.scales == VULKAN_SCALES_BYTES) {
        bytes.high = columns / facts.span;
        bytes.scales = 2 * (uint64_t)(columns / ggml_type_block(facts.type).elements);
    } else if (facts.scales != VULKAN_SCALES_HALF) {
        bytes.scales = columns / facts.span;
    }
    if (facts.scales == VULKAN_SCALES_E4M3)
        bytes.high = sizeof(float) *
                     ((uint64_t)(columns / VULKAN_WEIGHT_BLOCK_COLUMNS) >> factor_shift(columns));
    return bytes;
}

uint64_t vulkan_weight_format_high(enum vulkan_weight_kind kind, uint32_t columns, uint64_t address)
{
    bool factors = vulkan_weight_format_facts(kind).scales == VULKAN_SCALES_E4M3;
    must(!factors || address % VULKAN_WEIGHT_ALIGN_BYTES == 0);
    return factors ? address | factor_shift(columns) : address;
}

struct vulkan_weight_bytes vulkan_weight_format_bytes(enum vulkan_weight_kind kind, uint32_t rows,
                                                      uint32_t columns)
{
    struct vulkan_weight_bytes bytes = vulkan_weight_format_row_bytes(kind, columns);
    bytes.codes = align_bytes(bytes.codes * rows);
    bytes.high = align_bytes(bytes.high * rows);
    bytes.scales = align_bytes(bytes.scales * rows);
    return bytes;
}

static void store_u16(uint8_t *out, uint16_t value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
}

static void store_u32(uint8_t *out, uint32_t value)
{
    for (uint32_t i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

/* `bits` bits from bit `shift` on of 32 quants, laid out as one plane; returns its bytes. */
static uint32_t pack_plane(const int16_t *quants, uint32_t shift, uint32_t bits, uint8_t *out)
{
    if (bits == 8) {
        for (uint32_t e = 0; e < 32; e++)
            out[e] = (uint8_t)quants[e];
    } else if (bits == 4) {
        for (uint32_t e = 0; e < 16; e++)
            out[e] = (uint8_t)((quants[e] >> shift & 15) | (quants[e + 16] >> shift & 15) << 4);
    } else if (bits == 2) {
        uint32_t words[2] = {0, 0};
        for (uint32_t e = 0; e < 32; e++)
            words[e / 16] |= (uint32_t)(quants[e] >> shift & 3) << (8 * (e % 4) + 2 * (e % 16 / 4));
        store_u32(out, words[0]);
        store_u32(out + 4, words[1]);
    } else {
        uint32_t word = 0;
        must(bits == 1);
        for (uint32_t e = 0; e < 32; e++)
            word |= (uint32_t)(quants[e] >> shift & 1) << (8 * (e % 4) + e / 4);
        store_u32(out, word);
    }
    return 4 * bits;
}

static void pack_k_row(const struct vulkan_weight_facts *facts, const uint8_t *source,
                       uint32_t columns, struct vulkan_weight_arrays out)
{
    struct ggml_block block = ggml_type_block(facts->type);
    for (uint32_t column = 0; column < columns; column += block.elements, source += block.bytes) {
        int16_t quants[GGML_BLOCK_COLUMNS_MAX];
        struct ggml_scales scales;
        ggml_unpack_quants(facts->type, source, quants);
        ggml_unpack_scales(facts->type, source, &scales);
        float scale = ggml_f16_to_f32(scales.scale), minimum = ggml_f16_to_f32(scales.minimum);
        for (uint32_t i = 0; i < block.elements; i += VULKAN_WEIGHT_BLOCK_COLUMNS) {
            out.codes += pack_plane(quants + i, 0, facts->code_bits, out.codes);
            if (facts->high_bits != 0)
                out.high += pack_plane(quants + i, facts->code_bits, facts->high_bits, out.high);
        }
        for (uint32_t i = 0; i < block.elements / facts->span; i++) {
            store_u16(out.scales, ggml_f32_to_f16(scale * (float)scales.scales[i]));
            out.scales += 2;
            if (facts->minimum) {
                store_u16(out.scales, ggml_f32_to_f16(-minimum * (float)scales.minimums[i]));
                out.scales += 2;
            }
        }
    }
}

/* Types of 32 columns: in the file a block is its scale, its minimum, a mask of fifth bits (in
 * column order), and nibbles or bytes, which have the device's layout. */
static void pack_simple_row(const struct vulkan_weight_facts *facts, const uint8_t *source,
                            uint32_t columns, struct vulkan_weight_arrays out)
{
    uint32_t block_bytes = ggml_type_block(facts->type).bytes;
    uint32_t scale_bytes = facts->minimum ? 4 : 2;
    uint32_t code_bytes = 4 * facts->code_bits;
    for (uint32_t column = 0; column < columns; column += VULKAN_WEIGHT_BLOCK_COLUMNS) {
        memcpy(out.codes, source + block_bytes - code_bytes, code_bytes);
        memcpy(out.scales, source, scale_bytes);
        if (facts->high_bits != 0) {
            int16_t quants[VULKAN_WEIGHT_BLOCK_COLUMNS];
            ggml_unpack_quants(facts->type, source, quants);
            out.high += pack_plane(quants, 4, 1, out.high);
        }
        out.codes += code_bytes;
        out.scales += scale_bytes;
        source += block_bytes;
    }
}

/* Types of GGML_IS_GROUP(). */
static void pack_group_row(const struct vulkan_weight_facts *facts, const uint8_t *source,
                           uint32_t columns, struct vulkan_weight_arrays out)
{
    struct ggml_block block = ggml_type_block(facts->type);
    for (uint32_t column = 0; column < columns; column += block.elements, source += block.bytes) {
        int16_t quants[GGML_BLOCK_COLUMNS_MAX];
        ggml_unpack_quants(facts->type, source, quants);
        for (uint32_t i = 0; i < block.elements; i += VULKAN_WEIGHT_BLOCK_COLUMNS) {
            out.codes += pack_plane(quants + i, 0, facts->code_bits, out.codes);
            if (facts->high_bits != 0)
                out.high += pack_plane(quants + i, facts->code_bits, facts->high_bits, out.high);
        }
        memcpy(out.scales, source, facts->minimum ? 4 : 2);
        out.scales += facts->minimum ? 4 : 2;
    }
}

/* A8, A8_64, Z8: subtracting 128 makes codes signed; the minimum grows by 128 scales instead, and a zero point decreases as codes do. */
static void pack_signed_row(const struct vulkan_weight_facts *facts, const uint8_t *source,
                            uint32_t columns, struct vulkan_weight_arrays out)
{
    struct ggml_block block = ggml_type_block(facts->type);
    for (uint32_t column = 0; column < columns; column += block.elements, source += block.bytes) {
        int16_t quants[GGML_BLOCK_COLUMNS_MAX];
        struct ggml_scales scales;
        ggml_unpack_quants(facts->type, source, quants);
        ggml_unpack_scales(facts->type, source, &scales);
        float minimum = ggml_f16_to_f32(scales.minimum);
        minimum += facts->zero ? -128.0f : 128.0f * ggml_f16_to_f32(scales.scale);
        store_u16(out.scales, scales.scale);
        store_u16(out.scales + 2, ggml_f32_to_f16(minimum));
        for (uint32_t e = 0; e < block.elements; e++)
            out.codes[e] = (uint8_t)(quants[e] - 128);
        out.codes += block.elements;
        out.scales += 4;
    }
}

/* Types with a table whose scales are not one f16 per block. */
static void pack_table_row(const struct vulkan_weight_facts *facts, const uint8_t *source,
                           uint32_t columns, struct vulkan_weight_arrays out)
{
    const struct ggml_block block = ggml_type_block(facts->type);
    const uint32_t spans = block.elements / facts->span;
    float factor = 0.0f;
    for (uint32_t column = 0; column < columns; column += block.elements, source += block.bytes) {
        int16_t quants[GGML_BLOCK_COLUMNS_MAX];
        struct ggml_scales scales;
        ggml_unpack_quants(facts->type, source, quants);
        ggml_unpack_scales(facts->type, source, &scales);
        for (uint32_t i = 0; i < block.elements; i += VULKAN_WEIGHT_BLOCK_COLUMNS)
            out.codes += pack_plane(quants + i, 0, facts->code_bits, out.codes);
        if (facts->scales == VULKAN_SCALES_BYTES) {
            memcpy(out.high, scales.scales, spans);
            out.high += spans;
            store_u16(out.scales, scales.scale);
            out.scales += 2;
            continue;
        }
        memcpy(out.scales, scales.scales, spans);
        out.scales += spans;
        factor = column == 0 ? ggml_nvfp4_multiplier(scales.factor) : factor;
        for (uint32_t i = 0; i < spans && facts->scales == VULKAN_SCALES_E4M3; i++)
            factor = (scales.scales[i] & 0x7f) == 0x7f ? NAN : factor;
    }
    if (facts->scales != VULKAN_SCALES_E4M3)
        return;
    for (uint32_t b = 0; b < columns / VULKAN_WEIGHT_BLOCK_COLUMNS >> factor_shift(columns); b++)
        memcpy(out.high + sizeof factor * b, &factor, sizeof factor);
}

static void pack_f8_row(const struct vulkan_weight_facts *facts, const uint8_t *source,
                        uint32_t columns, struct vulkan_weight_arrays out)
{
    for (uint32_t column = 0; column < columns; column += facts->span) {
        float scale = ggml_f8_scale(source, facts->span);
        memcpy(out.scales, &scale, sizeof scale);
        memcpy(out.codes, source + sizeof scale, facts->span);
        out.scales += sizeof scale;
        out.codes += facts->span;
        source += sizeof scale + facts->span;
    }
}

/* NF4_64, FP4_64. */
static void pack_f4_row(const struct vulkan_weight_facts *facts, const uint8_t *source,
                        uint32_t columns, struct vulkan_weight_arrays out)
{
    const struct ggml_block block = ggml_type_block(facts->type);
    for (uint32_t column = 0; column < columns; column += block.elements, source += block.bytes) {
        memcpy(out.scales, source, sizeof(float));
        memcpy(out.codes, source + sizeof(float), block.elements / 2);
        out.scales += sizeof(float);
        out.codes += block.elements / 2;
    }
}

void vulkan_weight_format_pack(enum vulkan_weight_kind kind, const void *source, uint32_t row_count,
                               uint32_t columns, const struct vulkan_weight_arrays *out)
{
    struct vulkan_weight_facts facts = vulkan_weight_format_facts(kind);
    struct vulkan_weight_bytes bytes = vulkan_weight_format_row_bytes(kind, columns);
    uint64_t source_bytes = ggml_row_bytes(facts.type, columns);
    const uint8_t *row = source;
    for (uint32_t r = 0; r < row_count; r++, row += source_bytes) {
        struct vulkan_weight_arrays at = {.codes = out->codes + r * bytes.codes};
        if (bytes.high != 0)
            at.high = out->high + r * bytes.high;
        if (bytes.scales != 0)
            at.scales = out->scales + r * bytes.scales;
        if (!facts.quantized && facts.span > 0) {
            (facts.code_bits == 4 ? pack_f4_row : pack_f8_row)(&facts, row, columns, at);
        } else if (!facts.quantized) {
            memcpy(at.codes, row, source_bytes);
            memset(at.codes + source_bytes, 0, bytes.codes - source_bytes);
        } else if (facts.scales != VULKAN_SCALES_HALF) {
            pack_table_row(&facts, row, columns, at);
        } else if (GGML_SIGN_OFFSET(facts.code_bits, facts.minimum) != 0) {
            pack_signed_row(&facts, row, columns, at);
        } else if (ggml_type_layout(facts.type).group) {
            pack_group_row(&facts, row, columns, at);
        } else if (ggml_type_block(facts.type).elements == VULKAN_WEIGHT_BLOCK_COLUMNS) {
            pack_simple_row(&facts, row, columns, at);
        } else {
            pack_k_row(&facts, row, columns, at);
        }
    }
}
