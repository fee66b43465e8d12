/*
 * The linear kernels for AVX-512 with VNNI: linear_avx2.c's method with sixteen outputs to a
 * register.
 *
 * vpdpbusd multiplies four unsigned weight bytes with four signed activation bytes and adds them to
 * a 32-bit lane, so no 16-bit stage and no chain limit exist. Signed 8-bit weights are moved to
 * unsigned by adding 128, and 128 times the sum of the activations is subtracted. K kinds
 * multiply their integer sub-scales in 32 bits.
 */
#include "worker/backend/cpu/kernels/linear_avx512.h"

#include <immintrin.h>
#include <stdbool.h>

#include "worker/backend/cpu/kernels/linear_terms.h"

#define OUTLINE static __attribute__((noinline))

enum { ROWS_MAX = 8 };

INLINE __m512i load512(const uint8_t *bytes)
{
    return _mm512_loadu_si512((const void *)bytes);
}

INLINE __m512 load_halves(const uint8_t *halves)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)halves));
}

INLINE __m512i load_bytes(const uint8_t *bytes)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)bytes));
}

/* Scales of span `h` of a block of a kind without K scales. */
INLINE __m512 load_scales(struct kind kind, const uint8_t *scales, uint32_t h)
{
    if (kind.scales == GGML_SCALES_HALF)
        return load_halves(scales);
    __m512i wide = load_bytes(scales + 16 * h);
    if (kind.scales == GGML_SCALES_E8M0)
        return _mm512_castsi512_ps(
            _mm512_slli_epi32(_mm512_sub_epi32(wide, _mm512_set1_epi32(1)), 23));
    __m512i bits = _mm512_and_si512(_mm512_srai_epi32(_mm512_slli_epi32(wide, 24), 4),
                                    _mm512_set1_epi32(E4M3_FLOAT_MASK));
    return _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(E4M3_FLOAT_FACTOR));
}

/* Moves the bits at `from` of every byte to `to` and keeps those in `mask`. */
INLINE __m512i move_bits(__m512i bytes, uint32_t from, uint32_t to, uint32_t mask)
{
    if (from > to)
        bytes = _mm512_srli_epi32(bytes, from - to);
    else if (to > from)
        bytes = _mm512_slli_epi32(bytes, to - from);
    return _mm512_and_si512(bytes, _mm512_set1_epi8((char)mask));
}

/* Values of quad `quad` for sixteen outputs, unsigned (signed ones: plus 128). */
INLINE __m512i load_quad(struct kind kind, const uint8_t *planes, uint32_t quad)
{
    if (kind.bits == 8)
        return _mm512_xor_si512(load512(planes + 64 * quad), _mm512_set1_epi8((char)0x80));
    __m512i value = _mm512_setzero_si512();
    uint32_t at = 0;
    if (kind.bits & 4) {
        value = move_bits(load512(planes + 64 * (quad % 4)), quad / 4 * 4, 0, 15);
        if (kind.table) {
            __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table_of(kind)));
            return _mm512_xor_si512(_mm512_shuffle_epi8(table, value),
                                    _mm512_set1_epi8((char)0x80));
        }
        planes += 256;
        at = 4;
    }
    if (kind.bits & 2) {
        __m512i pair = move_bits(load512(planes + 64 * (quad / 4)), quad % 4 * 2, at, 3u << at);
        value = _mm512_or_si512(value, pair);
        planes += 128;
        at += 2;
    }
    if (kind.bits & 1)
        value = _mm512_or_si512(value, move_bits(load512(planes), quad, at, 1u << at));
    return value;
}

/* Asks for the block that is AHEAD_BYTES further on. */
INLINE void prefetch_block(struct kind kind, const uint8_t *block)
{
    const uint32_t lines = block_bytes_of(kind) / 64;
    UNROLL for (uint32_t line = 0; line < lines; line++)
        _mm_prefetch((const char *)block + AHEAD_BYTES + 64 * line, _MM_HINT_T0);
}

/* A block's values. */
INLINE void load_quads(struct kind kind, const uint8_t *planes, __m512i quads[8])
{
    UNROLL for (uint32_t q = 0; q < 8; q++) quads[q] = load_quad(kind, planes, q);
}

/* Dot product of span `h` with the center subtracted. */
INLINE __m512i span_dot(struct kind kind, const __m512i quads[8], const struct quantized_term *x,
                        uint32_t h)
{
    const uint32_t span_quads = kind.span == 16 ? 4 : 8;
    const int32_t center = is_signed(kind) ? 128 : kind.blocks == 8 ? (int32_t)kind.center : 0;
    __m512i sum = _mm512_setzero_si512();
    if (center > 0)
        sum = _mm512_set1_epi32(-center *
                                (x->pair_sums[h][0] + (kind.span == 16 ? 0 : x->pair_sums[1][0])));
    UNROLL for (uint32_t q = h * span_quads; q < (h + 1) * span_quads; q++) sum =
        _mm512_dpbusd_epi32(sum, quads[q], _mm512_set1_epi32(term_quad(x, q)));
    return sum;
}

/* A block of a kind without K scales. */
struct plain_values {
    __m512i quads[8];
    __m512 scale[2]; /* of each span */
    __m512 minimum;
};

INLINE struct plain_values load_plain(struct kind kind, const uint8_t *block, const uint8_t *scales)
{
    struct plain_values values = {.minimum = _mm512_setzero_ps()};
    load_quads(kind, block, values.quads);
    UNROLL for (uint32_t h = 0; h < plain_spans(kind); h++) values.scale[h] =
        load_scales(kind, scales, h);
    if (kind.zero)
        values.minimum =
            _mm512_fnmadd_ps(values.scale[0], load_halves(scales + 32), values.minimum);
    else if (kind.minimum && kind.center) /* A8's bytes are stored minus `center` */
        values.minimum = _mm512_fmadd_ps(values.scale[0], _mm512_set1_ps((float)kind.center),
                                         load_halves(scales + 32));
    else if (kind.minimum)
        values.minimum = load_halves(scales + 32);
    else if (kind.center)
        values.minimum = _mm512_mul_ps(values.scale[0], _mm512_set1_ps(-(float)kind.center));
    return values;
}

/* acc plus one term of a row. */
INLINE __m512 plain_term(struct kind kind, const struct plain_values *values,
                         const struct quantized_term *x, __m512 acc)
{
    UNROLL for (uint32_t h = 0; h < plain_spans(kind); h++)
    {
        __m512 both = _mm512_mul_ps(values->scale[h], _mm512_set1_ps(x->scale));
        __m512i sum = span_dot(kind, values->quads, x, h);
        acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), both, acc);
    }
    if (kind.minimum || kind.center)
        acc = _mm512_fmadd_ps(values->minimum, _mm512_set1_ps(x->sum), acc);
    return acc;
}

/* Second terms are added up apart, so that only the rows that have one in this block compute it:
 * a row's order of additions does not depend on other rows. */
INLINE void plain_block(struct kind kind, uint32_t rows, const uint8_t *block,
                        const uint8_t *scales, const struct quantized_block *x, size_t stride,
                        __m512 *acc, __m512 *second)
{
    const struct plain_values values = load_plain(kind, block, scales);
    uint32_t left = 0; /* rows with a second term */
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        const struct quantized_block *xr = row_block(x, stride, r);
        acc[r] = plain_term(kind, &values, &xr->term[0], acc[r]);
        left |= second_bit(xr) << r;
    }
    for (; left != 0; left &= left - 1) {
        uint32_t r = (uint32_t)__builtin_ctz(left);
        second[r] = plain_term(kind, &values, &row_block(x, stride, r)->term[1], second[r]);
    }
}

/* One unit of a kind without K scales. */
INLINE void plain_unit(struct kind kind, uint32_t rows, bool ahead, const uint8_t *unit,
                       const struct quantized_block *x, size_t stride, __m512 *acc, __m512 *second)
{
    for (uint32_t b = 0; b < kind.blocks; b++) {
        const uint8_t *block = unit + b * PACKED_PLANE_BYTES(kind.bits);
        if (ahead)
            prefetch_block(kind, block);
        plain_block(kind, rows, block, block + scales_after(kind, b), x + b, stride, acc, second);
    }
}

/* Integer sub-scales of 16 columns (span 16) or of the block. */
INLINE __m512i load_sub_scale(struct kind kind, const uint8_t *scales, uint32_t h)
{
    if (kind.span == 32 && kind.minimum)
        return load_bytes(scales);
    if (kind.minimum)
        return _mm512_and_si512(load_bytes(scales + 16 * h), _mm512_set1_epi32(15));
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(scales + 16 * h)));
}

/* The block's minimum term over x scale: sum of minimum * (sum of quants). */
INLINE __m512i minimum_term(struct kind kind, const uint8_t *scales, const struct quantized_term *x)
{
    if (kind.span == 32)
        return _mm512_mullo_epi32(load_bytes(scales + 16),
                                  _mm512_set1_epi32(x->pair_sums[0][0] + x->pair_sums[1][0]));
    __m512i low = _mm512_mullo_epi32(_mm512_srli_epi32(load_bytes(scales), 4),
                                     _mm512_set1_epi32(x->pair_sums[0][0]));
    __m512i high = _mm512_mullo_epi32(_mm512_srli_epi32(load_bytes(scales + 16), 4),
                                      _mm512_set1_epi32(x->pair_sums[1][0]));
    return _mm512_add_epi32(low, high);
}

/* Sums of a row over the blocks of a unit of a K kind, before its super-scales. */
struct unit_sums {
    __m512 products;
    __m512 minimums;
};

INLINE struct unit_sums k_term(struct kind kind, const __m512i quads[8], const uint8_t *scales,
                               const struct quantized_term *x, struct unit_sums sums)
{
    __m512 x_scale = _mm512_set1_ps(x->scale);
    __m512i sum = _mm512_mullo_epi32(span_dot(kind, quads, x, 0), load_sub_scale(kind, scales, 0));
    if (kind.span == 16)
        sum = _mm512_add_epi32(
            sum, _mm512_mullo_epi32(span_dot(kind, quads, x, 1), load_sub_scale(kind, scales, 1)));
    sums.products = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), x_scale, sums.products);
    if (kind.minimum) {
        __m512 minimum = _mm512_cvtepi32_ps(minimum_term(kind, scales, x));
        sums.minimums = _mm512_fmadd_ps(minimum, x_scale, sums.minimums);
    }
    return sums;
}

/* As plain_block(). */
INLINE void k_block(struct kind kind, uint32_t rows, const uint8_t *block,
                    const struct quantized_block *x, size_t stride, struct unit_sums *sums,
                    struct unit_sums *second)
{
    const uint8_t *scales = block + PACKED_PLANE_BYTES(kind.bits);
    uint32_t left = 0; /* rows with a second term */
    __m512i quads[8];
    load_quads(kind, block, quads);
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        const struct quantized_block *xr = row_block(x, stride, r);
        sums[r] = k_term(kind, quads, scales, &xr->term[0], sums[r]);
        left |= second_bit(xr) << r;
    }
    for (; left != 0; left &= left - 1) {
        uint32_t r = (uint32_t)__builtin_ctz(left);
        second[r] = k_term(kind, quads, scales, &row_block(x, stride, r)->term[1], second[r]);
    }
}

INLINE void k_unit(struct kind kind, uint32_t rows, bool ahead, const uint8_t *unit,
                   const struct quantized_block *x, size_t stride, __m512 *acc)
{
    const uint32_t block_bytes = block_bytes_of(kind);
    const struct unit_sums zeros = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    struct unit_sums sums[ROWS_MAX], second[ROWS_MAX];
    UNROLL for (uint32_t r = 0; r < rows; r++) sums[r] = second[r] = zeros;
    for (uint32_t b = 0; b < kind.blocks; b++) {
        if (ahead)
            prefetch_block(kind, unit + b * block_bytes);
        k_block(kind, rows, unit + b * block_bytes, x + b, stride, sums, second);
    }
    const uint8_t *super = unit + kind.blocks * block_bytes;
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        __m512 products = _mm512_add_ps(sums[r].products, second[r].products);
        acc[r] = _mm512_fmadd_ps(products, load_halves(super), acc[r]);
        if (kind.minimum) {
            __m512 minimums = _mm512_add_ps(sums[r].minimums, second[r].minimums);
            acc[r] = _mm512_fnmadd_ps(minimums, load_halves(super + 32), acc[r]);
        }
    }
}

INLINE void store_outputs(uint32_t rows, const struct linear_tile *tile, uint32_t first_row,
                          const __m512 *acc)
{
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        size_t at = (first_row + r) * tile->out_stride;
        __m512 value = acc[r];
        if (tile->add)
            value = _mm512_add_ps(_mm512_loadu_ps(tile->add + at), value);
        _mm512_storeu_ps(tile->out + at, value);
    }
}

/* `ahead`: the first rows of the group, whose weights are not in a cache yet. */
INLINE void quantized_rows(struct kind kind, uint32_t rows, bool ahead,
                           const struct linear_tile *tile, uint32_t first_row)
{
    const uint32_t unit_bytes = unit_bytes_of(kind);
    const size_t stride = tile->x_stride_bytes;
    const struct quantized_block *x =
        (const void *)((const char *)tile->x + first_row * tile->x_stride_bytes);
    const uint8_t *unit = tile->group + PACKED_FACTOR_BYTES(kind.span, kind.table);
    __m512 acc[ROWS_MAX], second[ROWS_MAX];
    UNROLL for (uint32_t r = 0; r < rows; r++) acc[r] = second[r] = _mm512_setzero_ps();
    for (uint32_t c = 0; c < tile->columns; c += PACKED_COLUMNS * kind.blocks) {
        if (kind.blocks == 8)
            k_unit(kind, rows, ahead, unit, x, stride, acc);
        else
            plain_unit(kind, rows, ahead, unit, x, stride, acc, second);
        unit += unit_bytes;
        x += kind.blocks;
    }
    if (kind.blocks != 8)
        UNROLL for (uint32_t r = 0; r < rows; r++) acc[r] = _mm512_add_ps(acc[r], second[r]);
    if (kind.scales == GGML_SCALES_E4M3) {
        __m512 factor = _mm512_loadu_ps((const void *)tile->group);
        UNROLL for (uint32_t r = 0; r < rows; r++) acc[r] = _mm512_mul_ps(acc[r], factor);
    }
    store_outputs(rows, tile, first_row, acc);
}

/* Fewer than eight rows from first_row on. */
INLINE void quantized_rest(struct kind kind, const struct linear_tile *tile, uint32_t first_row)
{
    switch (tile->rows - first_row) {
    case 7: quantized_rows(kind, 7, true, tile, first_row); break;
    case 6: quantized_rows(kind, 6, true, tile, first_row); break;
    case 5: quantized_rows(kind, 5, true, tile, first_row); break;
    case 4: quantized_rows(kind, 4, true, tile, first_row); break;
    case 3: quantized_rows(kind, 3, true, tile, first_row); break;
    case 2: quantized_rows(kind, 2, true, tile, first_row); break;
    case 1: quantized_rows(kind, 1, false, tile, first_row); break;
    default: break;
    }
}

/* Sixteen outputs of one column of a float group. */
INLINE __m512 load_floats(enum packed_kind kind, const uint8_t *column)
{
    if (kind == PACKED_F16)
        return load_halves(column);
    if (kind == PACKED_F32)
        return _mm512_loadu_ps((const void *)column);
    __m256i halves = _mm256_loadu_si256((const void *)column);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* The first rows, if several, ask for the column that is AHEAD_BYTES further on, perhaps of the
 * next group. */
INLINE void float_rows(enum packed_kind kind, uint32_t rows, const struct linear_tile *tile,
                       uint32_t first_row)
{
    const uint32_t column_bytes = kind == PACKED_F32 ? 64 : 32;
    const size_t stride = tile->x_stride_bytes;
    const char *x = (const char *)tile->x + first_row * stride;
    __m512 acc[ROWS_MAX];
    UNROLL for (uint32_t r = 0; r < rows; r++) acc[r] = _mm512_setzero_ps();
    for (uint32_t first = 0; first < tile->columns; first += PACKED_COLUMNS) {
        uint32_t left = tile->columns - first;
        uint32_t end = left < PACKED_COLUMNS ? tile->columns : first + PACKED_COLUMNS;
        __m512 part[ROWS_MAX];
        UNROLL for (uint32_t r = 0; r < rows; r++) part[r] = _mm512_setzero_ps();
        for (uint32_t c = first; c < end; c++) {
            const uint8_t *column = tile->group + (size_t)c * column_bytes;
            if (rows > 1 && first_row == 0)
                _mm_prefetch((const char *)column + AHEAD_BYTES, _MM_HINT_T0);
            __m512 weights = load_floats(kind, column);
            UNROLL for (uint32_t r = 0; r < rows; r++)
            {
                const float *xr = (const void *)(x + r * stride);
                part[r] = _mm512_fmadd_ps(weights, _mm512_set1_ps(xr[c]), part[r]);
            }
        }
        UNROLL for (uint32_t r = 0; r < rows; r++) acc[r] = _mm512_add_ps(acc[r], part[r]);
    }
    store_outputs(rows, tile, first_row, acc);
}

/* Sixteen outputs of one column of a pair. */
INLINE __m512 f8_floats(__m256i column)
{
    return _mm512_cvtph_ps(
        _mm256_and_si256(_mm256_srai_epi16(column, 1), _mm256_set1_epi16(F8_HALF_MASK)));
}

INLINE void f8_rows(uint32_t scaled, uint32_t rows, const struct linear_tile *tile,
                    uint32_t first_row)
{
    const size_t stride = tile->x_stride_bytes;
    const char *x = (const char *)tile->x + first_row * stride;
    __m512 acc[ROWS_MAX];
    UNROLL for (uint32_t r = 0; r < rows; r++) acc[r] = _mm512_setzero_ps();
    for (uint32_t first = 0; first < tile->columns; first += PACKED_COLUMNS) {
        const uint8_t *pair = f8_pair(tile, scaled, first);
        __m512 part[ROWS_MAX];
        UNROLL for (uint32_t r = 0; r < rows; r++) part[r] = _mm512_setzero_ps();
        for (uint32_t c = 0; c < PACKED_COLUMNS; c += 2, pair += PACKED_F8_PAIR_BYTES) {
            if (rows > 1 && first_row == 0)
                _mm_prefetch((const char *)pair + AHEAD_BYTES, _MM_HINT_T0);
            __m256i both = _mm256_loadu_si256((const void *)pair);
            UNROLL for (uint32_t o = 0; o < 2; o++)
            {
                __m512 weights = f8_floats(o == 0 ? _mm256_slli_epi16(both, 8) : both);
                UNROLL for (uint32_t r = 0; r < rows; r++)
                {
                    const float *xr = (const void *)(x + r * stride);
                    part[r] = _mm512_fmadd_ps(weights, _mm512_set1_ps(xr[first + c + o]), part[r]);
                }
            }
        }
        __m512 scale = _mm512_loadu_ps((const void *)f8_scales(tile, scaled, first));
        UNROLL for (uint32_t r = 0; r < rows; r++)
        {
            __m512 whole = _mm512_mul_ps(part[r], _mm512_set1_ps(F8_FACTOR));
            acc[r] = _mm512_fmadd_ps(whole, scale, acc[r]);
        }
    }
    store_outputs(rows, tile, first_row, acc);
}

/* NF4_64, FP4_64. */
INLINE void f4_rows(const float numbers[16], uint32_t scaled, uint32_t rows,
                    const struct linear_tile *tile, uint32_t first_row)
{
    const size_t stride = tile->x_stride_bytes;
    const char *x = (const char *)tile->x + first_row * stride;
    const __m512 table = _mm512_loadu_ps(numbers);
    __m512 acc[ROWS_MAX];
    UNROLL for (uint32_t r = 0; r < rows; r++) acc[r] = _mm512_setzero_ps();
    for (uint32_t first = 0; first < tile->columns; first += PACKED_COLUMNS) {
        const uint8_t *pair = f4_pair(tile, scaled, first);
        __m512 part[ROWS_MAX];
        UNROLL for (uint32_t r = 0; r < rows; r++) part[r] = _mm512_setzero_ps();
        for (uint32_t c = 0; c < PACKED_COLUMNS; c += 2, pair += PACKED_F4_PAIR_BYTES) {
            __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)pair));
            UNROLL for (uint32_t o = 0; o < 2; o++)
            {
                /* The lowest four bits of an index count. */
                __m512 weights =
                    _mm512_permutexvar_ps(o == 0 ? both : _mm512_srli_epi32(both, 4), table);
                UNROLL for (uint32_t r = 0; r < rows; r++)
                {
                    const float *xr = (const void *)(x + r * stride);
                    part[r] = _mm512_fmadd_ps(weights, _mm512_set1_ps(xr[first + c + o]), part[r]);
                }
            }
        }
        __m512 scale = _mm512_loadu_ps((const void *)f4_scales(tile, scaled, first));
        UNROLL for (uint32_t r = 0; r < rows; r++) acc[r] = _mm512_fmadd_ps(part[r], scale, acc[r]);
    }
    store_outputs(rows, tile, first_row, acc);
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

/* Fewer than eight rows from first_row on. */
INLINE void float_rest(enum packed_kind kind, uint32_t scaled, const struct linear_tile *tile,
                       uint32_t first_row)
{
    switch (tile->rows - first_row) {
    case 7: any_float_rows(kind, scaled, 7, tile, first_row); break;
    case 6: any_float_rows(kind, scaled, 6, tile, first_row); break;
    case 5: any_float_rows(kind, scaled, 5, tile, first_row); break;
    case 4: any_float_rows(kind, scaled, 4, tile, first_row); break;
    case 3: any_float_rows(kind, scaled, 3, tile, first_row); break;
    case 2: any_float_rows(kind, scaled, 2, tile, first_row); break;
    case 1: any_float_rows(kind, scaled, 1, tile, first_row); break;
    default: break;
    }
}

/* The time for a group is the latency of its chain of sums, for one row as for eight. So the rows
 * left over after blocks of eight share one pass. That pass is a separate function: inlined with
 * the other sizes, the pass for eight rows gets too few registers. */
#define QUANT_TILE(index, type, number, columns, bytes, bits, span, minimum, center, offset,       \
                   table)                                                                          \
    OUTLINE void rest_##type(const struct linear_tile *tile, uint32_t first_row)                   \
    {                                                                                              \
        quantized_rest(KIND(columns, bits, span, minimum, center, table), tile, first_row);        \
    }                                                                                              \
    void linear_avx512_##type(const struct linear_tile *tile)                                      \
    {                                                                                              \
        const struct kind kind = KIND(columns, bits, span, minimum, center, table);                \
        uint32_t row = tile->rows < 8 ? 0 : 8;                                                     \
        if (row > 0)                                                                               \
            quantized_rows(kind, 8, true, tile, 0);                                                \
        for (; row + 8 <= tile->rows; row += 8)                                                    \
            quantized_rows(kind, 8, false, tile, row);                                             \
        if (row < tile->rows)                                                                      \
            rest_##type(tile, row);                                                                \
    }
GGML_QUANT_LIST(QUANT_TILE)
#undef QUANT_TILE

#define FLOAT_TILE(index, type, number, bits, scaled, table)                                       \
    OUTLINE void rest_##type(const struct linear_tile *tile, uint32_t first_row)                   \
    {                                                                                              \
        float_rest(PACKED_##type, scaled, tile, first_row);                                        \
    }                                                                                              \
    void linear_avx512_##type(const struct linear_tile *tile)                                      \
    {                                                                                              \
        uint32_t row = 0;                                                                          \
        for (; row + 8 <= tile->rows; row += 8)                                                    \
            any_float_rows(PACKED_##type, scaled, 8, tile, row);                                   \
        if (row < tile->rows)                                                                      \
            rest_##type(tile, row);                                                                \
    }
GGML_FLOAT_LIST(FLOAT_TILE)
#undef FLOAT_TILE
