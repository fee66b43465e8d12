/*
 * Shared by the vector tiers of the linear kernels: constants of a packed kind, and access to
 * quantized activations.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_TERMS_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_TERMS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "worker/backend/cpu/kernels/kernel_types.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

/* What kernels use of a type's line of GGML_QUANT_LIST. */
struct kind {
    uint32_t bits, span, blocks, minimum, center, table, scales;
    bool zero; /* the minimum is a zero point */
};
#define KIND(columns, bits, span, minimum, center, table)                                          \
    (struct kind)                                                                                  \
    {                                                                                              \
        bits, span, PACKED_BLOCKS(columns), minimum, PACKED_CENTER(bits, minimum, center), table,  \
            GGML_SCALES(table, span), (minimum) == 2                                               \
    }

INLINE uint32_t block_bytes_of(struct kind kind)
{
    return PACKED_BLOCK_BYTES(kind.bits, kind.blocks, kind.span, kind.minimum, kind.table);
}

INLINE uint32_t unit_bytes_of(struct kind kind)
{
    return PACKED_UNIT_BYTES(kind.bits, kind.blocks, kind.span, kind.minimum, kind.table);
}

/* Spans of a block. */
INLINE uint32_t plain_spans(struct kind kind)
{
    return kind.span == 16 ? 2 : 1;
}

/* From block `block` of a unit of a kind without K scales to its scales. */
INLINE uint32_t scales_after(struct kind kind, uint32_t block)
{
    return (kind.blocks - block) * PACKED_PLANE_BYTES(kind.bits);
}

/* Whether unpacked values are signed bytes that may be negative. */
INLINE bool is_signed(struct kind kind)
{
    return kind.bits == 8 || kind.table != 0;
}

static const int8_t numbers_of_tables[][16] = {
    [GGML_TABLE_IQ4] = {GGML_IQ4_NUMBERS},         [GGML_TABLE_E2M1] = {GGML_E2M1_NUMBERS},
    [GGML_TABLE_IQ1] = {GGML_IQ1_NUMBERS},         [GGML_TABLE_IQ2] = {GGML_IQ2_NUMBERS},
    [GGML_TABLE_IQ3_XXS] = {GGML_IQ3_XXS_NUMBERS}, [GGML_TABLE_IQ3_S] = {GGML_IQ3_S_NUMBERS},
};

/* How far ahead weights are asked for while several rows compute. With one row it costs more than
 * it saves. */
#define AHEAD_BYTES 4096u

/* The sixteen numbers of a kind with a table. */
INLINE const int8_t *table_of(struct kind kind)
{
    return numbers_of_tables[kind.table];
}

/* The same term `row` rows further on. */
INLINE const struct quantized_term *row_term(const struct quantized_term *x, size_t stride,
                                             uint32_t row)
{
    return (const void *)((const char *)x + row * stride);
}

INLINE const struct quantized_block *row_block(const struct quantized_block *x, size_t stride,
                                               uint32_t row)
{
    return (const void *)((const char *)x + row * stride);
}

/* Whether the row has a second term, as a bit. */
INLINE uint32_t second_bit(const struct quantized_block *x)
{
    uint32_t scale;
    memcpy(&scale, &x->term[1].scale, sizeof scale);
    return scale != 0;
}

/* Quants 4 * quad .. 4 * quad + 3 as one number to broadcast. */
INLINE int32_t term_quad(const struct quantized_term *x, uint32_t quad)
{
    int32_t four;
    memcpy(&four, x->quants + 4 * quad, sizeof four);
    return four;
}

/* 2 when any of the rows has a second term in this block. A row without one then adds zeros,
 * which does not change its sums. */
INLINE uint32_t count_terms(const struct quantized_block *x, size_t stride, uint32_t rows)
{
    uint32_t any = 0;
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        uint32_t scale;
        memcpy(&scale, &row_term(&x->term[1], stride, r)->scale, sizeof scale);
        any |= scale;
    }
    return any ? 2 : 1;
}

/* An E4M3 byte in the top of a 32-bit lane, shifted right by four with its sign and masked, is the float of
 * the number times 2^-120, subnormal numbers too. */
#define E4M3_FLOAT_MASK   ((int32_t)0x87f00000u)
#define E4M3_FLOAT_FACTOR 0x1p120f

/* F8 types. An E4M3 byte in the upper half of a 16-bit word, shifted right by one with its sign and
 * masked, is the half of the number times 2^-8; NaNs are in the scales (packed_weight.h). So `part`,
 * a sum over halves, is times F8_FACTOR. */
#define F8_HALF_MASK ((int16_t)0xbf80)
#define F8_FACTOR    256.0f

/* Scales of the unit of column `column`, and its pair of columns. */
INLINE const uint8_t *f8_scales(const struct linear_tile *tile, uint32_t scaled, uint32_t column)
{
    return tile->group + (size_t)(column / scaled) * PACKED_F8_UNIT_BYTES(scaled);
}
INLINE const uint8_t *f8_pair(const struct linear_tile *tile, uint32_t scaled, uint32_t column)
{
    return f8_scales(tile, scaled, column) + PACKED_F8_SCALE_BYTES +
           column % scaled / 2 * PACKED_F8_PAIR_BYTES;
}

/* The same of NF4_64 and FP4_64, and the numbers of their nibbles. */
INLINE const uint8_t *f4_scales(const struct linear_tile *tile, uint32_t scaled, uint32_t column)
{
    return tile->group + (size_t)(column / scaled) * PACKED_F4_UNIT_BYTES(scaled);
}
INLINE const uint8_t *f4_pair(const struct linear_tile *tile, uint32_t scaled, uint32_t column)
{
    return f4_scales(tile, scaled, column) + PACKED_F8_SCALE_BYTES +
           column % scaled / 2 * PACKED_F4_PAIR_BYTES;
}
static const float f4_numbers[][16] = {
    [GGML_FLOATS_NF4] = {GGML_NF4_NUMBERS}, [GGML_FLOATS_FP4] = {GGML_FP4_NUMBERS}};

#endif
