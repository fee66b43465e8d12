/*
 * GGUF element types to f32.
 *
 * A quantized row is a run of blocks. ggml_unpack_quants() and ggml_unpack_scales() know where each
 * type keeps its codes and scales; the formula is the same for all and takes its constants from
 * proto/ggml_type_list.h. All reads are byte-wise or through memcpy, so rows may have any
 * alignment.
 *
 * Layouts: ggml's published block formats; the tests hold golden vectors made by the `gguf` Python
 * package. Infinities and NaNs in scales are passed through.
 */
#include "worker/backend/host/ggml_dequantize.h"

#include <math.h>
#include <string.h>

#include "proto/must.h"

uint64_t ggml_row_bytes(enum ggml_type type, uint32_t columns)
{
    struct ggml_block block = ggml_type_block(type);
    must(block.elements != 0 && columns % block.elements == 0);
    return (uint64_t)(columns / block.elements) * block.bytes;
}

struct ggml_layout ggml_type_layout(enum ggml_type type)
{
    switch (type) {
#define QUANT_LAYOUT(kind, name, number, columns, bytes, bits, span, minimum, center, offset,      \
                     table)                                                                        \
    case GGML_##name:                                                                              \
        return (struct ggml_layout){columns,                                                       \
                                    bytes,                                                         \
                                    bits,                                                          \
                                    span,                                                          \
                                    (minimum) != 0,                                                \
                                    (minimum) == 2,                                                \
                                    center,                                                        \
                                    offset,                                                        \
                                    table,                                                         \
                                    (columns) == 256,                                              \
                                    GGML_IS_GROUP(columns, bits, minimum)};
        GGML_QUANT_LIST(QUANT_LAYOUT)
#undef QUANT_LAYOUT
    default: must_fail("a quantized type", __FILE__, __LINE__);
    }
}

/* Q4_K, Q5_K: eight 6-bit scales and minimums in 12 bytes. */
static void unpack_6bit_scales(const uint8_t *packed, int8_t *scales, uint8_t *minimums)
{
    for (uint32_t i = 0; i < 4; i++) {
        scales[i] = packed[i] & 63;
        minimums[i] = packed[i + 4] & 63;
        scales[i + 4] = (int8_t)((packed[i + 8] & 15) | (packed[i] >> 6) << 4);
        minimums[i + 4] = (uint8_t)((packed[i + 8] >> 4) | (packed[i + 4] >> 6) << 4);
    }
}

/* Q3_K: sixteen 6-bit scales in 12 bytes, stored with 32 added. */
static void unpack_q3_k_scales(const uint8_t *packed, int8_t *scales)
{
    for (int i = 0; i < 16; i++) {
        int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
        int high = packed[8 + i % 4] >> (2 * (i / 4)) & 3;
        scales[i] = (int8_t)((low | high << 4) - 32);
    }
}

/* IQ4_XS: eight 6-bit scales, the upper bits first, stored with 32 added. */
static void unpack_iq4_xs_scales(const uint8_t *packed, int8_t *scales)
{
    uint16_t high = ggml_load_u16(packed);
    for (int i = 0; i < 8; i++) {
        int low = packed[2 + i / 2] >> (i % 2 * 4) & 15;
        scales[i] = (int8_t)((low | (high >> (2 * i) & 3) << 4) - 32);
    }
}

/* An E8M0 byte whose power is in the range of f16; others are of blocks of zeros. */
static uint8_t half_power(uint8_t byte)
{
    uint8_t least = byte < GGML_E8M0_MIN ? GGML_E8M0_MIN : byte;
    return least > GGML_E8M0_MAX ? GGML_E8M0_MAX : least;
}

/* Q4_0, Q4_1, Q5_0, Q5_1: nibbles (low half first) and, when `high` is not NULL, a bit mask of
 * fifth bits. */
static void unpack_32(const uint8_t *nibbles, const uint8_t *high, int16_t *quants)
{
    for (int i = 0; i < 16; i++) {
        quants[i] = nibbles[i] & 15;
        quants[i + 16] = nibbles[i] >> 4;
    }
    for (int i = 0; high && i < 32; i++)
        quants[i] = (int16_t)(quants[i] | (high[i / 8] >> (i % 8) & 1) << 4);
}

/* Q2_K, Q3_K: 2-bit planes, 128 columns per 32 bytes. */
static void unpack_2bit(const uint8_t *planes, int16_t *quants)
{
    for (int i = 0; i < 256; i++)
        quants[i] = planes[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
}

/* Q4_K, Q5_K: nibbles, 64 columns per 32 bytes. */
static void unpack_nibbles_64(const uint8_t *nibbles, int16_t *quants)
{
    for (int i = 0; i < 256; i++)
        quants[i] = nibbles[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

/* Q6_K: low nibbles [128], high pairs [64]. */
static void unpack_6bit(const uint8_t *low, const uint8_t *high, int16_t *quants)
{
    for (int i = 0; i < 256; i++) {
        int half = i / 128;
        int within = i % 128;
        int nibble = low[half * 64 + within % 64] >> (within / 64 * 4) & 15;
        int pair = high[half * 32 + within % 32] >> (within / 32 * 2) & 3;
        quants[i] = (int16_t)(nibble | pair << 4);
    }
}

/* Codes of `bits` bits, one after the other from the lowest bit on. */
static void unpack_stream(const uint8_t *stream, uint32_t bits, uint32_t columns, int16_t *quants)
{
    uint32_t held = 0, window = 0;
    for (uint32_t i = 0; i < columns; i++, held -= bits, window >>= bits) {
        for (; held < bits; held += 8)
            window |= (uint32_t)*stream++ << held;
        quants[i] = (int16_t)(window & ((1u << bits) - 1));
    }
}

void ggml_unpack_quants(enum ggml_type type, const uint8_t *block, int16_t *quants)
{
    struct ggml_layout layout = ggml_type_layout(type);
    if (layout.group) {
        unpack_stream(block + (layout.minimum ? 4 : 2), layout.bits, layout.columns, quants);
        return;
    }
    switch (type) {
    case GGML_Q4_0:
    case GGML_IQ4_NL: unpack_32(block + 2, NULL, quants); return;
    case GGML_IQ4_XS:
        for (int i = 0; i < 8; i++)
            unpack_32(block + 8 + 16 * i, NULL, quants + 32 * i);
        return;
    case GGML_MXFP4: unpack_32(block + 1, NULL, quants); return;
    case GGML_NVFP4: unpack_32(block + 6, NULL, quants); return;
    case GGML_Q4_1: unpack_32(block + 4, NULL, quants); return;
    case GGML_Q5_0: unpack_32(block + 6, block + 2, quants); return;
    case GGML_Q5_1: unpack_32(block + 8, block + 4, quants); return;
    case GGML_Q8_0:
        for (int i = 0; i < 32; i++)
            quants[i] = (int8_t)block[2 + i];
        return;
    case GGML_A8:
        for (int i = 0; i < 32; i++)
            quants[i] = block[4 + i];
        return;
    case GGML_Q2_K: unpack_2bit(block + 16, quants); return;
    case GGML_Q3_K:
        unpack_2bit(block + 32, quants);
        for (int i = 0; i < 256; i++)
            quants[i] = (int16_t)(quants[i] | (block[i % 32] >> (i / 32) & 1) << 2);
        return;
    case GGML_Q4_K: unpack_nibbles_64(block + 16, quants); return;
    case GGML_Q5_K:
        unpack_nibbles_64(block + 48, quants);
        for (int i = 0; i < 256; i++)
            quants[i] = (int16_t)(quants[i] | (block[16 + i % 32] >> (i / 32) & 1) << 4);
        return;
    case GGML_Q6_K: unpack_6bit(block, block + 128, quants); return;
    case GGML_N4_IQ1:
    case GGML_N4_IQ2:
    case GGML_N4_IQ3_XXS:
    case GGML_N4_IQ3_S:
        for (int i = 0; i < 8; i++)
            unpack_32(block + 18 + 16 * i, NULL, quants + 32 * i);
        return;
    default: must_fail("a quantized type", __FILE__, __LINE__);
    }
}

void ggml_unpack_scales(enum ggml_type type, const uint8_t *block, struct ggml_scales *out)
{
    struct ggml_layout layout = ggml_type_layout(type);
    *out = (struct ggml_scales){.scale = 0};
    if (GGML_SCALES(layout.table, layout.span) == GGML_SCALES_HALF)
        out->scale = ggml_load_u16(block + layout.offset);
    if (layout.minimum)
        out->minimum = ggml_load_u16(block + layout.offset + 2);
    switch (type) {
    case GGML_MXFP4: out->scales[0] = (int8_t)half_power(block[0]); return;
    case GGML_NVFP4:
        memcpy(&out->factor, block, sizeof out->factor);
        memcpy(out->scales, block + 4, 2);
        return;
    case GGML_IQ4_XS: unpack_iq4_xs_scales(block + 2, out->scales); return;
    case GGML_Q2_K:
        for (uint32_t i = 0; i < 16; i++) {
            out->scales[i] = block[i] & 15;
            out->minimums[i] = block[i] >> 4;
        }
        return;
    case GGML_Q3_K: unpack_q3_k_scales(block + 96, out->scales); return;
    case GGML_Q4_K:
    case GGML_Q5_K: unpack_6bit_scales(block + 4, out->scales, out->minimums); return;
    case GGML_Q6_K: memcpy(out->scales, block + 192, sizeof out->scales); return;
    case GGML_N4_IQ1:
    case GGML_N4_IQ2:
    case GGML_N4_IQ3_XXS:
    case GGML_N4_IQ3_S: memcpy(out->scales, block + 2, sizeof out->scales); return;
    default: return;
    }
}

const int8_t *ggml_table(uint32_t table)
{
    static const int8_t tables[][16] = {
        [GGML_TABLE_IQ4] = {GGML_IQ4_NUMBERS},         [GGML_TABLE_E2M1] = {GGML_E2M1_NUMBERS},
        [GGML_TABLE_IQ1] = {GGML_IQ1_NUMBERS},         [GGML_TABLE_IQ2] = {GGML_IQ2_NUMBERS},
        [GGML_TABLE_IQ3_XXS] = {GGML_IQ3_XXS_NUMBERS}, [GGML_TABLE_IQ3_S] = {GGML_IQ3_S_NUMBERS},
    };
    must(table > 0 && table < sizeof tables / sizeof tables[0]);
    return tables[table];
}

int8_t ggml_table_number(uint32_t table, uint32_t code)
{
    return ggml_table(table)[code & 15];
}

float ggml_nvfp4_scale(uint8_t scale, float factor)
{
    float number = ggml_e4m3_to_f32(scale);
    return factor < 0 ? number / -factor : number * factor;
}

float ggml_nvfp4_multiplier(float factor)
{
    return 0.5f * (factor < 0 ? 1.0f / -factor : factor);
}

/* What codes, or their numbers, of span `span` are multiplied with. */
static float span_factor(const struct ggml_layout *layout, const struct ggml_scales *scales,
                         uint32_t span)
{
    switch (GGML_SCALES(layout->table, layout->span)) {
    case GGML_SCALES_E8M0: return ldexpf(1.0f, (uint8_t)scales->scales[span] - 128);
    case GGML_SCALES_E4M3:
        return 0.5f * ggml_nvfp4_scale((uint8_t)scales->scales[span], scales->factor);
    default: break;
    }
    float scale = ggml_f16_to_f32(scales->scale);
    return layout->sub_scales ? scale * (float)scales->scales[span] : scale;
}

static void dequantize_block(enum ggml_type type, const struct ggml_layout *layout,
                             const uint8_t *block, float *out)
{
    int16_t quants[GGML_BLOCK_COLUMNS_MAX];
    struct ggml_scales scales;
    ggml_unpack_quants(type, block, quants);
    ggml_unpack_scales(type, block, &scales);
    float minimum = ggml_f16_to_f32(scales.minimum);
    for (uint32_t span = 0; span < layout->columns / layout->span; span++) {
        uint32_t first = span * layout->span;
        float factor = span_factor(layout, &scales, span);
        float addend = layout->sub_scales ? -minimum * (float)scales.minimums[span] : minimum;
        for (uint32_t i = first; i < first + layout->span; i++) {
            int32_t number = layout->table ? ggml_table_number(layout->table, (uint32_t)quants[i])
                                           : quants[i] - (int32_t)layout->center;
            out[i] =
                layout->zero ? factor * ((float)number - minimum) : factor * (float)number + addend;
        }
    }
}

const float *ggml_float_numbers(enum ggml_type type)
{
    static const float nf4[16] = {GGML_NF4_NUMBERS}, fp4[16] = {GGML_FP4_NUMBERS};
    must(type == GGML_NF4_64 || type == GGML_FP4_64);
    return type == GGML_NF4_64 ? nf4 : fp4;
}

float ggml_f8_scale(const uint8_t *block, uint32_t columns)
{
    float scale;
    memcpy(&scale, block, sizeof scale);
    for (uint32_t i = 0; i < columns; i++)
        if ((block[sizeof scale + i] & 0x7f) == 0x7f)
            return NAN;
    return scale;
}

static void dequantize_f8(const uint8_t *row, struct ggml_block block, uint32_t columns, float *out)
{
    const uint32_t count = block.elements;
    for (uint32_t c = 0; c < columns; c += count, row += block.bytes) {
        float scale;
        memcpy(&scale, row, sizeof scale);
        for (uint32_t i = 0; i < count; i++)
            out[c + i] = ggml_e4m3_to_f32(row[sizeof scale + i]) * scale;
    }
}

/* NF4_64, FP4_64. */
static void dequantize_f4(const uint8_t *row, const float *numbers, struct ggml_block block,
                          uint32_t columns, float *out)
{
    for (uint32_t c = 0; c < columns; c += block.elements, row += block.bytes) {
        float scale;
        memcpy(&scale, row, sizeof scale);
        for (uint32_t i = 0; i < block.elements; i++)
            out[c + i] = numbers[row[sizeof scale + i / 2] >> (i % 2 * 4) & 15] * scale;
    }
}

void ggml_dequantize_row(enum ggml_type type, const void *row, uint32_t columns, float *out)
{
    const uint8_t *bytes = row;
    struct ggml_block block = ggml_type_block(type);
    must(block.elements != 0 && columns % block.elements == 0);
    if (type == GGML_F32) {
        memcpy(out, bytes, columns * sizeof *out);
    } else if (type == GGML_F16) {
        for (uint32_t i = 0; i < columns; i++)
            out[i] = ggml_f16_to_f32(ggml_load_u16(bytes + 2 * (size_t)i));
    } else if (type == GGML_BF16) {
        for (uint32_t i = 0; i < columns; i++) {
            uint32_t bits = (uint32_t)ggml_load_u16(bytes + 2 * (size_t)i) << 16;
            memcpy(out + i, &bits, sizeof bits);
        }
    } else if (type == GGML_F8_128 || type == GGML_F8_32) {
        dequantize_f8(bytes, block, columns, out);
    } else if (type == GGML_NF4_64 || type == GGML_FP4_64) {
        dequantize_f4(bytes, ggml_float_numbers(type), block, columns, out);
    } else {
        struct ggml_layout layout = ggml_type_layout(type);
        for (uint32_t i = 0; i < columns; i += layout.columns, bytes += layout.bytes)
            dequantize_block(type, &layout, bytes, out + i);
    }
}
