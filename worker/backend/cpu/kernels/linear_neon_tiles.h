/*
 * The linear kernels for NEON, included once per instruction set: LINEAR_PRODUCTS is LINEAR_BYTES in linear_neon.c,
 * LINEAR_DOTS in linear_dotprod.c, LINEAR_MATRICES in linear_i8mm.c.
 *
 * A register holds four columns of four outputs. sdot multiplies them with four activation bytes,
 * which it takes from a quarter of a register, and adds to 32-bit lanes; smull and sadalp do the same on
 * every CPU of AArch64. smmla multiplies two rows
 * of eight activation bytes with two outputs of eight columns: two quads zipped. Values of up to 7
 * bits are signed bytes as they are, so no side moves its sign. Sums of integers are exact, so all three
 * give the same numbers; the operations on floats are those of linear_avx512.c in its order.
 *
 * Every (row, output) pair goes through the same operations for any number of rows (linear_avx2.c).
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_NEON_TILES_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_NEON_TILES_H

#include <arm_neon.h>

#include "worker/backend/cpu/kernels/linear_terms.h"

#define LINEAR_BYTES    0 /* smull, sadalp */
#define LINEAR_DOTS     1 /* sdot */
#define LINEAR_MATRICES 2 /* smmla for pairs of rows */

enum {
    ROWS_MAX = 8,
    VECTOR_OUTPUTS = 4,
    VECTORS = PACKED_ROWS / VECTOR_OUTPUTS, /* of a group */
};

/* Moves the bits at `from` of every byte to `to` and keeps those in `mask`. */
INLINE uint8x16_t move_bits(uint8x16_t bytes, uint32_t from, uint32_t to, uint32_t mask)
{
    if (from > to)
        bytes = bytes >> (uint8_t)(from - to);
    else if (to > from)
        bytes = bytes << (uint8_t)(to - from);
    return vandq_u8(bytes, vdupq_n_u8((uint8_t)mask));
}

/* Values of quad `quad` for four outputs, one per byte. */
INLINE int8x16_t load_quad(struct kind kind, const uint8_t *planes, uint32_t quad, uint32_t vector)
{
    planes += 16 * vector;
    if (kind.bits == 8)
        return vreinterpretq_s8_u8(vld1q_u8(planes + 64 * quad));
    uint8x16_t value = vdupq_n_u8(0);
    uint32_t at = 0;
    if (kind.bits & 4) {
        value = move_bits(vld1q_u8(planes + 64 * (quad % 4)), quad / 4 * 4, 0, 15);
        if (kind.table)
            return vqtbl1q_s8(vld1q_s8(table_of(kind)), value);
        planes += 256;
        at = 4;
    }
    if (kind.bits & 2) {
        uint8x16_t pair = move_bits(vld1q_u8(planes + 64 * (quad / 4)), quad % 4 * 2, at, 3u << at);
        value = vorrq_u8(value, pair);
        planes += 128;
        at += 2;
    }
    if (kind.bits & 1)
        value = vorrq_u8(value, move_bits(vld1q_u8(planes), quad, at, 1u << at));
    return vreinterpretq_s8_u8(value);
}

INLINE float32x4_t load_halves(const uint8_t *halves)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(halves)));
}

/* Four bytes as numbers. */
INLINE uint16x4_t load_four(const uint8_t *bytes)
{
    uint32_t four;
    memcpy(&four, bytes, sizeof four);
    return vget_low_u16(vmovl_u8(vcreate_u8(four)));
}

INLINE int32x4_t load_unsigned(const uint8_t *bytes)
{
    return vreinterpretq_s32_u32(vmovl_u16(load_four(bytes)));
}

INLINE int32x4_t load_signed(const uint8_t *bytes)
{
    uint32_t four;
    memcpy(&four, bytes, sizeof four);
    return vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(four))));
}

/* Scales of span `h` of a block of a kind without K scales, for four outputs. `scales`: of all sixteen. */
INLINE float32x4_t load_scales(struct kind kind, const uint8_t *scales, uint32_t h, uint32_t vector)
{
    if (kind.scales == GGML_SCALES_HALF)
        return load_halves(scales + 8 * vector);
    int32x4_t wide = load_unsigned(scales + 16 * h + 4 * vector);
    if (kind.scales == GGML_SCALES_E8M0)
        return vreinterpretq_f32_s32(vshlq_n_s32(vsubq_s32(wide, vdupq_n_s32(1)), 23));
    int32x4_t bits = vandq_s32(vshrq_n_s32(vshlq_n_s32(wide, 24), 4), vdupq_n_s32(E4M3_FLOAT_MASK));
    return vmulq_n_f32(vreinterpretq_f32_s32(bits), E4M3_FLOAT_FACTOR);
}

#if LINEAR_PRODUCTS == LINEAR_BYTES
/* sum + weights . quants 4 * lane .. 4 * lane + 3. A sum of two products fits in 16 bits: quants are above -128. */
INLINE int32x4_t dot_lane(int32x4_t sum, int8x16_t weights, int8x16_t quants, uint32_t lane)
{
    const uint32x4_t quads = vreinterpretq_u32_s8(quants);
    const uint32_t quad = lane == 0   ? vgetq_lane_u32(quads, 0)
                          : lane == 1 ? vgetq_lane_u32(quads, 1)
                          : lane == 2 ? vgetq_lane_u32(quads, 2)
                                      : vgetq_lane_u32(quads, 3);
    const int8x16_t all = vreinterpretq_s8_u32(vdupq_n_u32(quad));
    int16x8_t low = vmull_s8(vget_low_s8(weights), vget_low_s8(all));
    int16x8_t high = vmull_high_s8(weights, all);
    return vpadalq_s16(sum, vpaddq_s16(low, high));
}
#else
/* The same; `lane` is a constant after unrolling */
INLINE int32x4_t dot_lane(int32x4_t sum, int8x16_t weights, int8x16_t quants, uint32_t lane)
{
    switch (lane) {
    case 0: return vdotq_laneq_s32(sum, weights, quants, 0);
    case 1: return vdotq_laneq_s32(sum, weights, quants, 1);
    case 2: return vdotq_laneq_s32(sum, weights, quants, 2);
    default: return vdotq_laneq_s32(sum, weights, quants, 3);
    }
}
#endif

/* sums[r] += four outputs' products with columns 16h..16h+15 of each row */
INLINE void add_dots(struct kind kind, uint32_t rows, const uint8_t *planes, uint32_t vector,
                     uint32_t h, const struct quantized_term *x, size_t stride, int32x4_t *sums)
{
    UNROLL for (uint32_t q = 0; q < 4; q++)
    {
        int8x16_t weights = load_quad(kind, planes, 4 * h + q, vector);
        UNROLL for (uint32_t r = 0; r < rows; r++) sums[r] =
            dot_lane(sums[r], weights, vld1q_s8(row_term(x, stride, r)->quants + 16 * h), q);
    }
}

#if LINEAR_PRODUCTS == LINEAR_MATRICES
/* The same for pairs of rows. */
INLINE void add_matrices(struct kind kind, uint32_t rows, const uint8_t *planes, uint32_t vector,
                         uint32_t h, const struct quantized_term *x, size_t stride, int32x4_t *sums)
{
    int32x4_t low[ROWS_MAX / 2], high[ROWS_MAX / 2]; /* [row, output] of two by two */
    UNROLL for (uint32_t p = 0; p < rows / 2; p++) low[p] = high[p] = vdupq_n_s32(0);
    UNROLL for (uint32_t q = 4 * h; q < 4 * h + 4; q += 2)
    {
        int32x4_t even = vreinterpretq_s32_s8(load_quad(kind, planes, q, vector));
        int32x4_t odd = vreinterpretq_s32_s8(load_quad(kind, planes, q + 1, vector));
        int8x16_t first = vreinterpretq_s8_s32(vzip1q_s32(even, odd));  /* outputs 0 and 1 */
        int8x16_t second = vreinterpretq_s8_s32(vzip2q_s32(even, odd)); /* outputs 2 and 3 */
        UNROLL for (uint32_t p = 0; p < rows / 2; p++)
        {
            int8x16_t quants = vcombine_s8(vld1_s8(row_term(x, stride, 2 * p)->quants + 4 * q),
                                           vld1_s8(row_term(x, stride, 2 * p + 1)->quants + 4 * q));
            low[p] = vmmlaq_s32(low[p], quants, first);
            high[p] = vmmlaq_s32(high[p], quants, second);
        }
    }
    UNROLL for (uint32_t p = 0; p < rows / 2; p++)
    {
        int64x2_t lower = vreinterpretq_s64_s32(low[p]);
        int64x2_t upper = vreinterpretq_s64_s32(high[p]);
        sums[2 * p] = vaddq_s32(sums[2 * p], vreinterpretq_s32_s64(vzip1q_s64(lower, upper)));
        sums[2 * p + 1] =
            vaddq_s32(sums[2 * p + 1], vreinterpretq_s32_s64(vzip2q_s64(lower, upper)));
    }
}
#endif

/* sums[h][r]: dot products of columns 16h..16h+span-1 with the center of K kinds subtracted. */
INLINE void block_dot(struct kind kind, uint32_t rows, const uint8_t *planes, uint32_t vector,
                      const struct quantized_term *x, size_t stride, int32x4_t sums[2][ROWS_MAX])
{
    const int32_t center = kind.blocks == 8 ? (int32_t)kind.center : 0;
    UNROLL for (uint32_t h = 0; h < 2; h++)
    {
        int32x4_t *into = sums[kind.span == 16 ? h : 0];
        UNROLL for (uint32_t r = 0; r < rows; r++)
        {
            int32x4_t start = vdupq_n_s32(-center * row_term(x, stride, r)->pair_sums[h][0]);
            if (h == 0 || kind.span == 16)
                into[r] = start;
            else if (center)
                into[r] = vaddq_s32(into[r], start);
        }
#if LINEAR_PRODUCTS == LINEAR_MATRICES
        if (rows > 1) {
            add_matrices(kind, rows, planes, vector, h, x, stride, into);
            continue;
        }
#endif
        add_dots(kind, rows, planes, vector, h, x, stride, into);
    }
}

/* One block of a kind without K scales, joined to acc[r]. */
INLINE void plain_block(struct kind kind, uint32_t rows, const uint8_t *block,
                        const uint8_t *scales, uint32_t vector, const struct quantized_block *x,
                        size_t stride, float32x4_t *acc)
{
    const uint32_t terms = count_terms(x, stride, rows);
    const uint32_t spans = plain_spans(kind);
    float32x4_t scale[2] = {load_scales(kind, scales, 0, vector), vdupq_n_f32(0.0f)};
    float32x4_t minimum = vdupq_n_f32(0.0f);
    if (spans == 2)
        scale[1] = load_scales(kind, scales, 1, vector);
    if (kind.zero)
        minimum = vfmsq_f32(minimum, scale[0], load_halves(scales + 32 + 8 * vector));
    else if (kind.minimum && kind.center) /* A8's bytes are stored minus `center` */
        minimum = vfmaq_f32(load_halves(scales + 32 + 8 * vector), scale[0],
                            vdupq_n_f32((float)kind.center));
    else if (kind.minimum)
        minimum = load_halves(scales + 32 + 8 * vector);
    else if (kind.center)
        minimum = vmulq_f32(scale[0], vdupq_n_f32(-(float)kind.center));
    for (uint32_t t = 0; t < terms; t++) {
        int32x4_t sums[2][ROWS_MAX];
        block_dot(kind, rows, block, vector, &x->term[t], stride, sums);
        UNROLL for (uint32_t r = 0; r < rows; r++)
        {
            const struct quantized_term *xr = row_term(&x->term[t], stride, r);
            UNROLL for (uint32_t h = 0; h < spans; h++)
            {
                float32x4_t both = vmulq_f32(scale[h], vdupq_n_f32(xr->scale));
                acc[r] = vfmaq_f32(acc[r], vcvtq_f32_s32(sums[h][r]), both);
            }
            if (kind.minimum || kind.center)
                acc[r] = vfmaq_f32(acc[r], minimum, vdupq_n_f32(xr->sum));
        }
    }
}

/* One unit of such a kind for four outputs. */
INLINE void plain_unit(struct kind kind, uint32_t rows, const uint8_t *unit, uint32_t vector,
                       const struct quantized_block *x, size_t stride, float32x4_t *acc)
{
    for (uint32_t b = 0; b < kind.blocks; b++) {
        const uint8_t *block = unit + b * PACKED_PLANE_BYTES(kind.bits);
        plain_block(kind, rows, block, block + scales_after(kind, b), vector, x + b, stride, acc);
    }
}

/* Integer sub-scales of 16 columns (span 16) or of the block. */
INLINE int32x4_t load_sub_scale(struct kind kind, const uint8_t *scales, uint32_t h)
{
    if (kind.span == 32 && kind.minimum)
        return load_unsigned(scales);
    if (kind.minimum)
        return vandq_s32(load_unsigned(scales + 16 * h), vdupq_n_s32(15));
    return load_signed(scales + 16 * h);
}

/* The block's minimum term over x scale: sum of minimum * (sum of quants). */
INLINE int32x4_t minimum_term(struct kind kind, const uint8_t *scales,
                              const struct quantized_term *x)
{
    if (kind.span == 32)
        return vmulq_s32(load_unsigned(scales + 16),
                         vdupq_n_s32(x->pair_sums[0][0] + x->pair_sums[1][0]));
    int32x4_t low =
        vmulq_s32(vshrq_n_s32(load_unsigned(scales), 4), vdupq_n_s32(x->pair_sums[0][0]));
    return vmlaq_s32(low, vshrq_n_s32(load_unsigned(scales + 16), 4),
                     vdupq_n_s32(x->pair_sums[1][0]));
}

/* One term of a block of a K kind, joined to the unit's sums and minimum sums. */
INLINE void k_block(struct kind kind, uint32_t rows, const uint8_t *block, uint32_t vector,
                    const struct quantized_term *x, size_t stride, float32x4_t *unit,
                    float32x4_t *unit_minimum)
{
    int32x4_t sums[2][ROWS_MAX];
    const uint8_t *scales = block + PACKED_PLANE_BYTES(kind.bits) + 4 * vector;
    block_dot(kind, rows, block, vector, x, stride, sums);
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        const struct quantized_term *xr = row_term(x, stride, r);
        float32x4_t x_scale = vdupq_n_f32(xr->scale);
        int32x4_t sum = vmulq_s32(sums[0][r], load_sub_scale(kind, scales, 0));
        if (kind.span == 16)
            sum = vmlaq_s32(sum, sums[1][r], load_sub_scale(kind, scales, 1));
        unit[r] = vfmaq_f32(unit[r], vcvtq_f32_s32(sum), x_scale);
        if (kind.minimum) {
            float32x4_t minimum = vcvtq_f32_s32(minimum_term(kind, scales, xr));
            unit_minimum[r] = vfmaq_f32(unit_minimum[r], minimum, x_scale);
        }
    }
}

/* One unit of a K kind for four outputs. */
INLINE void k_unit(struct kind kind, uint32_t rows, const uint8_t *unit, uint32_t vector,
                   const struct quantized_block *x, size_t stride, float32x4_t *acc)
{
    const uint32_t block_bytes = block_bytes_of(kind);
    float32x4_t sums[ROWS_MAX];
    float32x4_t minimums[ROWS_MAX];
    UNROLL for (uint32_t r = 0; r < rows; r++) sums[r] = minimums[r] = vdupq_n_f32(0.0f);
    for (uint32_t b = 0; b < kind.blocks; b++) {
        const uint32_t terms = count_terms(x + b, stride, rows);
        for (uint32_t t = 0; t < terms; t++)
            k_block(kind, rows, unit + b * block_bytes, vector, &x[b].term[t], stride, sums,
                    minimums);
    }
    const uint8_t *super = unit + kind.blocks * block_bytes + 8 * vector;
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        acc[r] = vfmaq_f32(acc[r], sums[r], load_halves(super));
        if (kind.minimum)
            acc[r] = vfmsq_f32(acc[r], minimums[r], load_halves(super + 32));
    }
}

INLINE void store_outputs(uint32_t rows, const struct linear_tile *tile, uint32_t first_row,
                          uint32_t vector, const float32x4_t *acc)
{
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        size_t at = (first_row + r) * tile->out_stride + VECTOR_OUTPUTS * vector;
        float32x4_t value = acc[r];
        if (tile->add)
            value = vaddq_f32(vld1q_f32(tile->add + at), value);
        vst1q_f32(tile->out + at, value);
    }
}

/* `vectors` times four outputs from vector `first` on, of `rows` rows. */
INLINE void quantized_rows(struct kind kind, uint32_t rows, const struct linear_tile *tile,
                           uint32_t first_row, uint32_t first, uint32_t vectors)
{
    const uint32_t unit_bytes = unit_bytes_of(kind);
    const size_t stride = tile->x_stride_bytes;
    const struct quantized_block *x =
        (const void *)((const char *)tile->x + first_row * tile->x_stride_bytes);
    const uint8_t *unit = tile->group + PACKED_FACTOR_BYTES(kind.span, kind.table);
    float32x4_t acc[VECTORS][ROWS_MAX];
    UNROLL for (uint32_t v = 0; v < vectors; v++) UNROLL for (uint32_t r = 0; r < rows; r++)
        acc[v][r] = vdupq_n_f32(0.0f);
    for (uint32_t c = 0; c < tile->columns; c += PACKED_COLUMNS * kind.blocks) {
        UNROLL for (uint32_t v = 0; v < vectors; v++)
        {
            if (kind.blocks == 8)
                k_unit(kind, rows, unit, first + v, x, stride, acc[v]);
            else
                plain_unit(kind, rows, unit, first + v, x, stride, acc[v]);
        }
        unit += unit_bytes;
        x += kind.blocks;
    }
    UNROLL for (uint32_t v = 0; v < vectors; v++)
    {
        if (kind.scales == GGML_SCALES_E4M3) {
            float32x4_t factor = vreinterpretq_f32_u8(vld1q_u8(tile->group + 16 * (first + v)));
            UNROLL for (uint32_t r = 0; r < rows; r++) acc[v][r] = vmulq_f32(acc[v][r], factor);
        }
        store_outputs(rows, tile, first_row, first + v, acc[v]);
    }
}

/* One row, or two, are limited by memory, so they read the group once. More rows read it several
 * times, from the first-level cache after the first, so that their sums stay in registers. */
INLINE void quantized_tile(struct kind kind, const struct linear_tile *tile)
{
    uint32_t row = 0;
#if LINEAR_PRODUCTS != LINEAR_BYTES /* whose products need registers too */
    for (; row + 8 <= tile->rows; row += 8)
        for (uint32_t v = 0; v < VECTORS; v++)
            quantized_rows(kind, 8, tile, row, v, 1);
#endif
    for (; row + 4 <= tile->rows; row += 4) {
        quantized_rows(kind, 4, tile, row, 0, 2);
        quantized_rows(kind, 4, tile, row, 2, 2);
    }
    if (tile->rows - row >= 2) {
        quantized_rows(kind, 2, tile, row, 0, VECTORS);
        row += 2;
    }
    if (row < tile->rows)
        quantized_rows(kind, 1, tile, row, 0, VECTORS);
}

/* Four outputs of one column of a float group. */
INLINE float32x4_t load_floats(enum packed_kind kind, const uint8_t *column, uint32_t vector)
{
    if (kind == PACKED_F32)
        return vreinterpretq_f32_u8(vld1q_u8(column + 16 * vector));
    if (kind == PACKED_F16)
        return load_halves(column + 8 * vector);
    return vreinterpretq_f32_u32(
        vshll_n_u16(vreinterpret_u16_u8(vld1_u8(column + 8 * vector)), 16));
}

/* All sixteen outputs of `rows` rows, at most four. */
INLINE void float_rows(enum packed_kind kind, uint32_t rows, const struct linear_tile *tile,
                       uint32_t first_row)
{
    const uint32_t column_bytes = kind == PACKED_F32 ? 64 : 32;
    const size_t stride = tile->x_stride_bytes;
    const char *x = (const char *)tile->x + first_row * stride;
    float32x4_t acc[VECTORS][ROWS_MAX];
    UNROLL for (uint32_t v = 0; v < VECTORS; v++) UNROLL for (uint32_t r = 0; r < rows; r++)
        acc[v][r] = vdupq_n_f32(0.0f);
    for (uint32_t start = 0; start < tile->columns; start += PACKED_COLUMNS) {
        uint32_t left = tile->columns - start;
        uint32_t end = left < PACKED_COLUMNS ? tile->columns : start + PACKED_COLUMNS;
        float32x4_t part[VECTORS][ROWS_MAX];
        UNROLL for (uint32_t v = 0; v < VECTORS; v++) UNROLL for (uint32_t r = 0; r < rows; r++)
            part[v][r] = vdupq_n_f32(0.0f);
        for (uint32_t c = start; c < end; c++) {
            UNROLL for (uint32_t v = 0; v < VECTORS; v++)
            {
                float32x4_t weights = load_floats(kind, tile->group + (size_t)c * column_bytes, v);
                UNROLL for (uint32_t r = 0; r < rows; r++)
                {
                    const float *xr = (const void *)(x + r * stride);
                    part[v][r] = vfmaq_n_f32(part[v][r], weights, xr[c]);
                }
            }
        }
        UNROLL for (uint32_t v = 0; v < VECTORS; v++) UNROLL for (uint32_t r = 0; r < rows; r++)
            acc[v][r] = vaddq_f32(acc[v][r], part[v][r]);
    }
    UNROLL for (uint32_t v = 0; v < VECTORS; v++) store_outputs(rows, tile, first_row, v, acc[v]);
}

/* Outputs of vector `vector` in one column of a pair. */
INLINE float32x4_t f8_floats(const uint8_t *pair, uint32_t vector, uint32_t o)
{
    int16x4_t both = vreinterpret_s16_u8(vld1_u8(pair + 8 * vector));
    int16x4_t column = vshr_n_s16(o == 0 ? vshl_n_s16(both, 8) : both, 1);
    return vcvt_f32_f16(vreinterpret_f16_s16(vand_s16(column, vdup_n_s16(F8_HALF_MASK))));
}

/* All sixteen outputs of `rows` rows, at most four. */
INLINE void f8_rows(uint32_t scaled, uint32_t rows, const struct linear_tile *tile,
                    uint32_t first_row)
{
    const size_t stride = tile->x_stride_bytes;
    const char *x = (const char *)tile->x + first_row * stride;
    float32x4_t acc[VECTORS][ROWS_MAX];
    UNROLL for (uint32_t v = 0; v < VECTORS; v++) UNROLL for (uint32_t r = 0; r < rows; r++)
        acc[v][r] = vdupq_n_f32(0.0f);
    for (uint32_t first = 0; first < tile->columns; first += PACKED_COLUMNS) {
        const uint8_t *pair = f8_pair(tile, scaled, first);
        const uint8_t *scales = f8_scales(tile, scaled, first);
        float32x4_t part[VECTORS][ROWS_MAX];
        UNROLL for (uint32_t v = 0; v < VECTORS; v++) UNROLL for (uint32_t r = 0; r < rows; r++)
            part[v][r] = vdupq_n_f32(0.0f);
        for (uint32_t c = 0; c < PACKED_COLUMNS; c++) {
            const uint8_t *at = pair + c / 2 * PACKED_F8_PAIR_BYTES;
            UNROLL for (uint32_t v = 0; v < VECTORS; v++)
            {
                float32x4_t weights = f8_floats(at, v, c % 2);
                UNROLL for (uint32_t r = 0; r < rows; r++)
                {
                    const float *xr = (const void *)(x + r * stride);
                    part[v][r] = vfmaq_n_f32(part[v][r], weights, xr[first + c]);
                }
            }
        }
        UNROLL for (uint32_t v = 0; v < VECTORS; v++)
        {
            float32x4_t scale = vreinterpretq_f32_u8(vld1q_u8(scales + 16 * v));
            UNROLL for (uint32_t r = 0; r < rows; r++) acc[v][r] =
                vfmaq_f32(acc[v][r], vmulq_n_f32(part[v][r], F8_FACTOR), scale);
        }
    }
    UNROLL for (uint32_t v = 0; v < VECTORS; v++) store_outputs(rows, tile, first_row, v, acc[v]);
}

/* Numbers of the nibbles of four outputs in the even column of a pair, or the odd one: each byte of a float by a
 * look-up in the table's 64 bytes. */
INLINE float32x4_t f4_floats(uint8x16x4_t table, uint8x16_t codes, uint32_t vector, uint32_t o)
{
    static const uint8_t places[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    static const uint8_t bytes[16] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
    uint8x16_t nibbles = o == 0 ? vandq_u8(codes, vdupq_n_u8(15)) : vshrq_n_u8(codes, 4);
    uint8x16_t wide =
        vqtbl1q_u8(nibbles, vaddq_u8(vld1q_u8(places), vdupq_n_u8((uint8_t)(4 * vector))));
    return vreinterpretq_f32_u8(vqtbl4q_u8(table, vorrq_u8(vshlq_n_u8(wide, 2), vld1q_u8(bytes))));
}

/* NF4_64, FP4_64: all sixteen outputs of `rows` rows, at most four. */
INLINE void f4_rows(const float numbers[16], uint32_t scaled, uint32_t rows,
                    const struct linear_tile *tile, uint32_t first_row)
{
    const size_t stride = tile->x_stride_bytes;
    const char *x = (const char *)tile->x + first_row * stride;
    const uint8x16x4_t table = vld1q_u8_x4((const void *)numbers);
    float32x4_t acc[VECTORS][ROWS_MAX];
    UNROLL for (uint32_t v = 0; v < VECTORS; v++) UNROLL for (uint32_t r = 0; r < rows; r++)
        acc[v][r] = vdupq_n_f32(0.0f);
    for (uint32_t first = 0; first < tile->columns; first += PACKED_COLUMNS) {
        const uint8_t *pair = f4_pair(tile, scaled, first);
        const uint8_t *scales = f4_scales(tile, scaled, first);
        float32x4_t part[VECTORS][ROWS_MAX];
        UNROLL for (uint32_t v = 0; v < VECTORS; v++) UNROLL for (uint32_t r = 0; r < rows; r++)
            part[v][r] = vdupq_n_f32(0.0f);
        for (uint32_t c = 0; c < PACKED_COLUMNS; c++) {
            uint8x16_t codes = vld1q_u8(pair + c / 2 * PACKED_F4_PAIR_BYTES);
            UNROLL for (uint32_t v = 0; v < VECTORS; v++)
            {
                float32x4_t weights = f4_floats(table, codes, v, c % 2);
                UNROLL for (uint32_t r = 0; r < rows; r++)
                {
                    const float *xr = (const void *)(x + r * stride);
                    part[v][r] = vfmaq_n_f32(part[v][r], weights, xr[first + c]);
                }
            }
        }
        UNROLL for (uint32_t v = 0; v < VECTORS; v++)
        {
            float32x4_t scale = vreinterpretq_f32_u8(vld1q_u8(scales + 16 * v));
            UNROLL for (uint32_t r = 0; r < rows; r++) acc[v][r] =
                vfmaq_f32(acc[v][r], part[v][r], scale);
        }
    }
    UNROLL for (uint32_t v = 0; v < VECTORS; v++) store_outputs(rows, tile, first_row, v, acc[v]);
}

/* `scaled`: 0, or columns per f32 scale; nibbles of NF4_64 and FP4_64. */
INLINE void any_float_rows(enum packed_kind kind, uint32_t scaled, uint32_t rows,
                           const struct linear_tile *tile, uint32_t first_row)
{
    if (kind == PACKED_NF4_64 || kind == PACKED_FP4_64)
        f4_rows(f4_numbers[kind == PACKED_NF4_64 ? GGML_FLOATS_NF4 : GGML_FLOATS_FP4], scaled, rows,
                tile, first_row);
    else if (scaled > 0)
        f8_rows(scaled, rows, tile, first_row);
    else
        float_rows(kind, rows, tile, first_row);
}

INLINE void float_tile(enum packed_kind kind, uint32_t scaled, const struct linear_tile *tile)
{
    uint32_t row = 0;
    for (; row + 4 <= tile->rows; row += 4)
        any_float_rows(kind, scaled, 4, tile, row);
    if (tile->rows - row >= 2) {
        any_float_rows(kind, scaled, 2, tile, row);
        row += 2;
    }
    if (row < tile->rows)
        any_float_rows(kind, scaled, 1, tile, row);
}

#endif
