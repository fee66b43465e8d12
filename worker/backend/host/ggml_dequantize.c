/*
 * GGUF element types to f32.
 *
 * A quantized row is a run of blocks. Each block type here is taken apart in two stages, because
 * packing for the kernels needs the first one alone: ggml_unpack_quants() yields the stored
 * integers in column order, and the per-type function applies scales. All reads are byte-wise or
 * through memcpy, so rows may have any alignment.
 *
 *   Q4_0 Q5_0     d * (q - half)          32 columns, f16 d
 *   Q4_1 Q5_1     d * q + m               32 columns, f16 d and m
 *   Q8_0          d * q                   32 columns, signed q
 *   A8            d * q + m               32 columns, f16 d and m; in no file (weight_source.h)
 *   Q2_K Q4_K Q5_K  d * sc * q - dmin * m   256 columns; sc and m per 16 (Q2_K) or 32
 *   Q3_K Q6_K     d * sc * (q - half)     256 columns; signed sc per 16
 *
 * Layouts: ggml's published block formats; the tests hold golden vectors made by the `gguf` Python
 * package. It does not judge values: infinities and NaNs in scales come out as such.
 */
#include "worker/backend/host/ggml_dequantize.h"

#include <string.h>

#include "proto/must.h"

#define BLOCK_ELEMENTS_MAX 256

uint64_t ggml_row_bytes(enum ggml_type type, uint32_t columns)
{
    struct ggml_block block = ggml_type_block(type);
    must(block.elements != 0 && columns % block.elements == 0);
    return (uint64_t)(columns / block.elements) * block.bytes;
}

void ggml_k4_scale_min(const uint8_t *packed, uint32_t index, uint8_t *scale, uint8_t *minimum)
{
    if (index < 4) {
        *scale = packed[index] & 63;
        *minimum = packed[index + 4] & 63;
    } else {
        *scale = (uint8_t)((packed[index + 4] & 15) | (packed[index - 4] >> 6) << 4);
        *minimum = (uint8_t)((packed[index + 4] >> 4) | (packed[index] >> 6) << 4);
    }
}

void ggml_q3_k_scales(const uint8_t *packed, int8_t *scales)
{
    for (int i = 0; i < 16; i++) {
        int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
        int high = packed[8 + i % 4] >> (2 * (i / 4)) & 3;
        scales[i] = (int8_t)((low | high << 4) - 32);
    }
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

void ggml_unpack_quants(enum ggml_type type, const uint8_t *block, int16_t *quants)
{
    switch (type) {
    case GGML_Q4_0: unpack_32(block + 2, NULL, quants); return;
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
    default: must_fail("a quantized type", __FILE__, __LINE__);
    }
}

/* One affine term per 32 columns: out = scale * q + addend. */
static void dequantize_affine(const int16_t *quants, float scale, float addend, int count,
                              float *out)
{
    for (int i = 0; i < count; i++)
        out[i] = scale * quants[i] + addend;
}

static void dequantize_simple(enum ggml_type type, const uint8_t *block, const int16_t *quants,
                              float *out)
{
    float d = ggml_f16_to_f32(ggml_load_u16(block));
    int center = type == GGML_Q4_0 ? 8 : type == GGML_Q5_0 ? 16 : 0;
    bool has_minimum = type == GGML_Q4_1 || type == GGML_Q5_1 || type == GGML_A8;
    float m = has_minimum ? ggml_f16_to_f32(ggml_load_u16(block + 2)) : 0.0f;
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)(quants[i] - center) + m;
}

static void dequantize_q2_k(const uint8_t *block, const int16_t *quants, float *out)
{
    float d = ggml_f16_to_f32(ggml_load_u16(block + 80));
    float dmin = ggml_f16_to_f32(ggml_load_u16(block + 82));
    for (int i = 0; i < 16; i++)
        dequantize_affine(quants + 16 * i, d * (float)(block[i] & 15),
                          -dmin * (float)(block[i] >> 4), 16, out + 16 * i);
}

/* Q4_K, Q5_K */
static void dequantize_k_minimum(const uint8_t *block, const int16_t *quants, float *out)
{
    float d = ggml_f16_to_f32(ggml_load_u16(block));
    float dmin = ggml_f16_to_f32(ggml_load_u16(block + 2));
    for (uint32_t i = 0; i < 8; i++) {
        uint8_t scale, minimum;
        ggml_k4_scale_min(block + 4, i, &scale, &minimum);
        dequantize_affine(quants + 32 * i, d * scale, -dmin * minimum, 32, out + 32 * i);
    }
}

/* Q3_K, Q6_K */
static void dequantize_k_centered(float d, const int8_t *scales, int center, const int16_t *quants,
                                  float *out)
{
    for (int i = 0; i < 256; i++)
        out[i] = d * scales[i / 16] * (float)(quants[i] - center);
}

static void dequantize_block(enum ggml_type type, const uint8_t *block, float *out)
{
    int16_t quants[BLOCK_ELEMENTS_MAX];
    int8_t scales[16];
    ggml_unpack_quants(type, block, quants);
    switch (type) {
    case GGML_Q2_K: dequantize_q2_k(block, quants, out); return;
    case GGML_Q4_K:
    case GGML_Q5_K: dequantize_k_minimum(block, quants, out); return;
    case GGML_Q3_K:
        ggml_q3_k_scales(block + 96, scales);
        dequantize_k_centered(ggml_f16_to_f32(ggml_load_u16(block + 108)), scales, 4, quants, out);
        return;
    case GGML_Q6_K:
        memcpy(scales, block + 192, sizeof scales);
        dequantize_k_centered(ggml_f16_to_f32(ggml_load_u16(block + 208)), scales, 32, quants, out);
        return;
    default: dequantize_simple(type, block, quants, out); return;
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
    } else {
        for (uint32_t i = 0; i < columns; i += block.elements, bytes += block.bytes)
            dequantize_block(type, bytes, out + i);
    }
}
