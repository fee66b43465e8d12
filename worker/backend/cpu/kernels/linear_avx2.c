/*
 * The linear kernels for AVX2 with FMA and F16C.
 *
 * One always-inlined tile function, instantiated per packed kind and per number of rows (1..4), so
 * that every constant of a kind (planes, spans, scales) folds away. A register holds four columns
 * of eight outputs; the other operand is four activation bytes repeated. maddubs gives pair sums in
 * 16 bits: values of b bits and quants of at most 127 allow `chain_quads(b)` of them to be added
 * before 16 bits could overflow (8 * 2 * 15 * 127 = 30,480 for 4 bits). Then one madd widens to 32
 * bits; for K kinds it multiplies by the integer sub-scale at the same time. Eight-bit weights move
 * their sign to the activations, because maddubs wants one side unsigned.
 *
 * The rare second term of a block's activations (kernel_types.h) runs the same code again.
 *
 * Every (row, output) pair goes through the same operations in the same order for any number of
 * rows: the row loop is innermost and sums of rows are separate. So a row's result does not
 * depend on the other rows.
 */
#include "worker/backend/cpu/kernels/linear_avx2.h"

#include <immintrin.h>
#include <stdbool.h>

#include "worker/backend/cpu/kernels/linear_terms.h"

enum { ROWS_MAX = 6 }; /* quantized kinds take 4 */

/* Keeps a sum in a register and the additions into it in order: compilers otherwise regroup integer
 * sums into trees of temporaries that do not fit. */
#define HOLD(vector) __asm__("" : "+x"(vector))

/* How many maddubs results fit in 16 bits, as a count of quads that divides a span. */
INLINE uint32_t chain_quads(struct kind kind)
{
    if (kind.table ==
        GGML_TABLE_IQ4) /* numbers to 127; 43; others of tables to 31, in spans of 16 */
        return 1;
    if (kind.table == GGML_TABLE_IQ2)
        return 2;
    uint32_t fit = kind.bits <= 4 ? 8 : kind.bits == 5 ? 4 : kind.bits == 6 ? 2 : 1;
    return fit < kind.span / 4 ? fit : kind.span / 4;
}

INLINE __m256i load256(const uint8_t *bytes)
{
    return _mm256_loadu_si256((const void *)bytes);
}

INLINE __m256 load_halves(const uint8_t *halves)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)halves));
}

/* Moves the bits at `from` of every byte to `to` and keeps those in `mask` (16-bit shifts: the mask
 * removes bits of the other byte). */
INLINE __m256i move_bits(__m256i bytes, uint32_t from, uint32_t to, uint32_t mask)
{
    if (from > to)
        bytes = _mm256_srli_epi16(bytes, (int)(from - to));
    else if (to > from)
        bytes = _mm256_slli_epi16(bytes, (int)(to - from));
    return _mm256_and_si256(bytes, _mm256_set1_epi8((char)mask));
}

/* Asks for the block that is AHEAD_BYTES further on. */
INLINE void prefetch_block(struct kind kind, const uint8_t *block)
{
    const uint32_t lines = block_bytes_of(kind) / 64;
    UNROLL for (uint32_t line = 0; line < lines; line++)
        _mm_prefetch((const char *)block + AHEAD_BYTES + 64 * line, _MM_HINT_T0);
}

/* Values of quad `quad` for eight outputs (half 0 or 1), one per byte. */
INLINE __m256i load_quad(struct kind kind, const uint8_t *planes, uint32_t quad, uint32_t half)
{
    planes += 32 * half;
    if (kind.bits == 8)
        return load256(planes + 64 * quad);
    __m256i value = _mm256_setzero_si256();
    uint32_t at = 0;
    if (kind.bits & 4) {
        value = move_bits(load256(planes + 64 * (quad % 4)), quad / 4 * 4, 0, 15);
        if (kind.table)
            value = _mm256_shuffle_epi8(
                _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table_of(kind))), value);
        planes += 256;
        at = 4;
    }
    if (kind.bits & 2) {
        __m256i pair = move_bits(load256(planes + 64 * (quad / 4)), quad % 4 * 2, at, 3u << at);
        value = _mm256_or_si256(value, pair);
        planes += 128;
        at += 2;
    }
    if (kind.bits & 1)
        value = _mm256_or_si256(value, move_bits(load256(planes), quad, at, 1u << at));
    return value;
}

/* Sub-scales of eight outputs for madd, the value repeated in both 16-bit halves of a lane: `h`
 * selects 16 columns. */
INLINE __m256i load_sub_scale(struct kind kind, const uint8_t *scales, uint32_t h, uint32_t half)
{
    __m128i bytes =
        _mm_loadl_epi64((const void *)(scales + (kind.span == 16 ? 16 * h : 0) + 8 * half));
    __m256i wide;
    if (!kind.minimum) {
        wide = _mm256_cvtepi8_epi32(bytes);
    } else {
        wide = _mm256_cvtepu8_epi32(bytes);
        if (kind.span == 16)
            wide = _mm256_and_si256(wide, _mm256_set1_epi32(15));
    }
    return _mm256_or_si256(_mm256_and_si256(wide, _mm256_set1_epi32(0xffff)),
                           _mm256_slli_epi32(wide, 16));
}

/* Integer minimums of eight outputs in the low 16-bit half of each lane. */
INLINE __m256i load_minimum(struct kind kind, const uint8_t *scales, uint32_t h, uint32_t half)
{
    if (kind.span == 32)
        return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(scales + 16 + 8 * half)));
    __m128i bytes = _mm_loadl_epi64((const void *)(scales + 16 * h + 8 * half));
    return _mm256_srli_epi32(_mm256_cvtepu8_epi32(bytes), 4);
}

/* E4M3 numbers, the bytes in the top of each lane. */
INLINE __m256 e4m3_floats(__m256i top)
{
    __m256i bits = _mm256_and_si256(_mm256_srai_epi32(top, 4), _mm256_set1_epi32(E4M3_FLOAT_MASK));
    return _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(E4M3_FLOAT_FACTOR));
}

/* Scales of span `h` of a block of a kind without K scales, for eight outputs. */
INLINE __m256 load_scales(struct kind kind, const uint8_t *scales, uint32_t h, uint32_t half)
{
    if (kind.scales == GGML_SCALES_HALF)
        return load_halves(scales + 16 * half);
    __m128i bytes = _mm_loadl_epi64((const void *)(scales + 16 * h + 8 * half));
    __m256i wide = _mm256_cvtepu8_epi32(bytes);
    if (kind.scales == GGML_SCALES_E4M3)
        return e4m3_floats(_mm256_slli_epi32(wide, 24));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_sub_epi32(wide, _mm256_set1_epi32(1)), 23));
}

INLINE __m256i broadcast_quad(const struct quantized_term *x, uint32_t quad)
{
    return _mm256_set1_epi32(term_quad(x, quad));
}

INLINE __m256i broadcast_pair(const struct quantized_term *x, uint32_t h)
{
    int32_t pair;
    __builtin_memcpy(&pair, x->pair_sums[h], 4);
    return _mm256_set1_epi32(pair);
}

/* sums[r] = integer dot products of quads begin … end - 1 of one block's term for eight outputs,
 * sub-scales applied for K kinds. */
INLINE void block_dot(struct kind kind, uint32_t rows, const uint8_t *planes, uint32_t half,
                      uint32_t begin, uint32_t end, const struct quantized_term *x, size_t stride,
                      __m256i *sums)
{
    const uint8_t *scales = planes + PACKED_PLANE_BYTES(kind.bits);
    const uint32_t chain = chain_quads(kind);
    UNROLL for (uint32_t first = begin; first < end; first += chain)
    {
        __m256i pairs[ROWS_MAX];
        UNROLL for (uint32_t q = first; q < first + chain; q++)
        {
            __m256i weights = load_quad(kind, planes, q, half);
            __m256i magnitudes = is_signed(kind) ? _mm256_abs_epi8(weights) : weights;
            UNROLL for (uint32_t r = 0; r < rows; r++)
            {
                __m256i quants = broadcast_quad(row_term(x, stride, r), q);
                if (is_signed(kind))
                    quants = _mm256_sign_epi8(quants, weights);
                __m256i product = _mm256_maddubs_epi16(magnitudes, quants);
                pairs[r] = q == first ? product : _mm256_add_epi16(pairs[r], product);
                HOLD(pairs[r]);
            }
        }
        __m256i factor = kind.blocks == 8
                             ? load_sub_scale(kind, scales, first * 4 / kind.span, half)
                             : _mm256_set1_epi16(1);
        UNROLL for (uint32_t r = 0; r < rows; r++)
        {
            __m256i wide = _mm256_madd_epi16(pairs[r], factor);
            sums[r] = first == begin ? wide : _mm256_add_epi32(sums[r], wide);
        }
    }
}

/* Subtracts center * (sum of quants) * sub-scale from the sums of a centered K kind (span 16). */
INLINE void subtract_center(struct kind kind, uint32_t rows, const uint8_t *scales, uint32_t half,
                            const struct quantized_term *x, size_t stride, __m256i *sums)
{
    UNROLL for (uint32_t h = 0; h < 2; h++)
    {
        /* a pair sum counts the quants twice, so half the center: 32 -> 16, 4 -> 2 */
        __m256i factor =
            _mm256_slli_epi16(load_sub_scale(kind, scales, h, half), kind.center == 32 ? 4 : 1);
        UNROLL for (uint32_t r = 0; r < rows; r++)
        {
            __m256i pair = broadcast_pair(row_term(x, stride, r), h);
            sums[r] = _mm256_sub_epi32(sums[r], _mm256_madd_epi16(pair, factor));
        }
    }
}

/* One block of a kind without K scales, joined to acc[r]. */
INLINE void plain_block(struct kind kind, uint32_t rows, const uint8_t *block,
                        const uint8_t *scales, uint32_t half, const struct quantized_block *x,
                        size_t stride, __m256 *acc)
{
    const uint32_t terms = count_terms(x, stride, rows);
    const uint32_t spans = plain_spans(kind);
    __m256 scale[2] = {load_scales(kind, scales, 0, half), _mm256_setzero_ps()};
    __m256 minimum = _mm256_setzero_ps();
    if (spans == 2)
        scale[1] = load_scales(kind, scales, 1, half);
    if (kind.zero)
        minimum = _mm256_xor_ps(_mm256_mul_ps(scale[0], load_halves(scales + 32 + 16 * half)),
                                _mm256_set1_ps(-0.0f));
    else if (kind.minimum && kind.center) /* A8's bytes are stored minus `center` */
        minimum = _mm256_fmadd_ps(scale[0], _mm256_set1_ps((float)kind.center),
                                  load_halves(scales + 32 + 16 * half));
    else if (kind.minimum)
        minimum = load_halves(scales + 32 + 16 * half);
    else if (kind.center)
        minimum = _mm256_mul_ps(scale[0], _mm256_set1_ps(-(float)kind.center));
    for (uint32_t t = 0; t < terms; t++) {
        UNROLL for (uint32_t h = 0; h < spans; h++)
        {
            __m256i sums[ROWS_MAX];
            block_dot(kind, rows, block, half, 8 / spans * h, 8 / spans * (h + 1), &x->term[t],
                      stride, sums);
            UNROLL for (uint32_t r = 0; r < rows; r++)
            {
                const struct quantized_term *xr = row_term(&x->term[t], stride, r);
                __m256 both = _mm256_mul_ps(scale[h], _mm256_set1_ps(xr->scale));
                acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[r]), both, acc[r]);
                if (kind.minimum || kind.center)
                    acc[r] = _mm256_fmadd_ps(minimum, _mm256_set1_ps(xr->sum), acc[r]);
            }
        }
    }
}

/* One unit of such a kind for eight outputs. */
INLINE void plain_unit(struct kind kind, uint32_t rows, const uint8_t *unit, uint32_t half,
                       const struct quantized_block *x, size_t stride, __m256 *acc)
{
    for (uint32_t b = 0; b < kind.blocks; b++) {
        const uint8_t *block = unit + b * PACKED_PLANE_BYTES(kind.bits);
        plain_block(kind, rows, block, block + scales_after(kind, b), half, x + b, stride, acc);
    }
}

/* One term of a block of a K kind, joined to the unit's sums and minimum sums. */
INLINE void k_block(struct kind kind, uint32_t rows, const uint8_t *block, uint32_t half,
                    const struct quantized_term *x, size_t stride, __m256 *unit,
                    __m256 *unit_minimum)
{
    __m256i sums[ROWS_MAX];
    const uint8_t *scales = block + PACKED_PLANE_BYTES(kind.bits);
    block_dot(kind, rows, block, half, 0, 8, x, stride, sums);
    if (kind.center)
        subtract_center(kind, rows, scales, half, x, stride, sums);
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        const struct quantized_term *xr = row_term(x, stride, r);
        __m256 x_scale = _mm256_set1_ps(xr->scale);
        unit[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[r]), x_scale, unit[r]);
        if (kind.minimum && kind.span == 32) {
            __m256 minimum = _mm256_cvtepi32_ps(load_minimum(kind, scales, 0, half));
            unit_minimum[r] = _mm256_fmadd_ps(minimum, _mm256_set1_ps(xr->sum), unit_minimum[r]);
        } else if (kind.minimum) {
            __m256i low =
                _mm256_madd_epi16(broadcast_pair(xr, 0), load_minimum(kind, scales, 0, half));
            __m256i high =
                _mm256_madd_epi16(broadcast_pair(xr, 1), load_minimum(kind, scales, 1, half));
            __m256 minimum = _mm256_cvtepi32_ps(_mm256_add_epi32(low, high));
            unit_minimum[r] = _mm256_fmadd_ps(minimum, x_scale, unit_minimum[r]);
        }
    }
}

/* One unit of a K kind for eight outputs. */
INLINE void k_unit(struct kind kind, uint32_t rows, const uint8_t *unit, uint32_t half,
                   const struct quantized_block *x, size_t stride, __m256 *acc)
{
    const uint32_t block_bytes = block_bytes_of(kind);
    __m256 sums[ROWS_MAX];
    __m256 minimums[ROWS_MAX];
    UNROLL for (uint32_t r = 0; r < rows; r++) sums[r] = minimums[r] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < kind.blocks; b++) {
        const uint32_t terms = count_terms(x + b, stride, rows);
        for (uint32_t t = 0; t < terms; t++)
            k_block(kind, rows, unit + b * block_bytes, half, &x[b].term[t], stride, sums,
                    minimums);
    }
    const uint8_t *super = unit + kind.blocks * block_bytes + 16 * half;
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        acc[r] = _mm256_fmadd_ps(sums[r], load_halves(super), acc[r]);
        if (kind.minimum)
            acc[r] = _mm256_fnmadd_ps(minimums[r], load_halves(super + 32), acc[r]);
    }
}

INLINE void store_outputs(uint32_t rows, const struct linear_tile *tile, uint32_t first_row,
                          uint32_t half, const __m256 *acc)
{
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        size_t at = (first_row + r) * tile->out_stride + 8 * half;
        __m256 value = acc[r];
        if (tile->add)
            value = _mm256_add_ps(_mm256_loadu_ps(tile->add + at), value);
        _mm256_storeu_ps(tile->out + at, value);
    }
}

/* Outputs 8 * first_half .. 8 * halves_end - 1 of `rows` rows. `ahead`: the first pass over the
 * group, whose weights are not in a cache yet. */
INLINE void quantized_rows(struct kind kind, uint32_t rows, bool ahead,
                           const struct linear_tile *tile, uint32_t first_row, uint32_t first_half,
                           uint32_t halves_end)
{
    const uint32_t unit_bytes = unit_bytes_of(kind);
    const size_t stride = tile->x_stride_bytes;
    const struct quantized_block *x =
        (const void *)((const char *)tile->x + first_row * tile->x_stride_bytes);
    const uint8_t *unit = tile->group + PACKED_FACTOR_BYTES(kind.span, kind.table);
    __m256 acc[2][ROWS_MAX];
    UNROLL for (uint32_t r = 0; r < rows; r++) acc[0][r] = acc[1][r] = _mm256_setzero_ps();
    for (uint32_t c = 0; c < tile->columns; c += PACKED_COLUMNS * kind.blocks) {
        if (ahead)
            UNROLL for (uint32_t b = 0; b < kind.blocks; b++)
                prefetch_block(kind, unit + b * block_bytes_of(kind));
        UNROLL for (uint32_t half = first_half; half < halves_end; half++)
        {
            if (kind.blocks == 8)
                k_unit(kind, rows, unit, half, x, stride, acc[half]);
            else
                plain_unit(kind, rows, unit, half, x, stride, acc[half]);
        }
        unit += unit_bytes;
        x += kind.blocks;
    }
    UNROLL for (uint32_t half = first_half; half < halves_end; half++)
    {
        if (kind.scales == GGML_SCALES_E4M3) {
            __m256 factor = _mm256_loadu_ps((const void *)(tile->group + 32 * half));
            UNROLL for (uint32_t r = 0; r < rows; r++) acc[half][r] =
                _mm256_mul_ps(acc[half][r], factor);
        }
        store_outputs(rows, tile, first_row, half, acc[half]);
    }
}

/* A single row is limited by memory, so it reads the group once, both halves together. Several rows
 * read the group twice, the second time from the first-level cache, so that one half's sums stay in
 * registers. */
INLINE void quantized_tile(struct kind kind, const struct linear_tile *tile)
{
    uint32_t row = 0;
    if (tile->rows >= 4) {
        quantized_rows(kind, 4, true, tile, 0, 0, 1);
        quantized_rows(kind, 4, false, tile, 0, 1, 2);
        row = 4;
    }
    for (; row + 4 <= tile->rows; row += 4) {
        quantized_rows(kind, 4, false, tile, row, 0, 1);
        quantized_rows(kind, 4, false, tile, row, 1, 2);
    }
    switch (tile->rows - row) {
    case 3:
        quantized_rows(kind, 3, true, tile, row, 0, 1);
        quantized_rows(kind, 3, false, tile, row, 1, 2);
        break;
    case 2:
        quantized_rows(kind, 2, true, tile, row, 0, 1);
        quantized_rows(kind, 2, false, tile, row, 1, 2);
        break;
    case 1: quantized_rows(kind, 1, false, tile, row, 0, 2); break;
    default: break;
    }
}

/* Eight outputs of one column of a float group. */
INLINE __m256 load_floats(enum packed_kind kind, const uint8_t *column, uint32_t half)
{
    if (kind == PACKED_F16)
        return load_halves(column + 16 * half);
    if (kind == PACKED_F32)
        return _mm256_loadu_ps((const void *)(column + 32 * half));
    __m128i halves = _mm_loadu_si128((const void *)(column + 16 * half));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

INLINE void float_rows(enum packed_kind kind, uint32_t rows, const struct linear_tile *tile,
                       uint32_t first_row)
{
    const uint32_t column_bytes = kind == PACKED_F32 ? 64 : 32;
    const size_t stride = tile->x_stride_bytes;
    const char *x = (const char *)tile->x + first_row * stride;
    __m256 acc[2][ROWS_MAX];
    UNROLL for (uint32_t r = 0; r < rows; r++) acc[0][r] = acc[1][r] = _mm256_setzero_ps();
    for (uint32_t first = 0; first < tile->columns; first += PACKED_COLUMNS) {
        uint32_t left = tile->columns - first;
        uint32_t end = left < PACKED_COLUMNS ? tile->columns : first + PACKED_COLUMNS;
        __m256 part[2][ROWS_MAX];
        UNROLL for (uint32_t r = 0; r < rows; r++) part[0][r] = part[1][r] = _mm256_setzero_ps();
        for (uint32_t c = first; c < end; c++) {
            const uint8_t *column = tile->group + (size_t)c * column_bytes;
            if (rows > 1 && first_row == 0)
                _mm_prefetch((const char *)column + AHEAD_BYTES, _MM_HINT_T0);
            __m256 low = load_floats(kind, column, 0);
            __m256 high = load_floats(kind, column, 1);
            UNROLL for (uint32_t r = 0; r < rows; r++)
            {
                __m256 value =
                    _mm256_broadcast_ss((const float *)(const void *)(x + r * stride) + c);
                part[0][r] = _mm256_fmadd_ps(low, value, part[0][r]);
                part[1][r] = _mm256_fmadd_ps(high, value, part[1][r]);
            }
        }
        UNROLL for (uint32_t r = 0; r < rows; r++)
        {
            acc[0][r] = _mm256_add_ps(acc[0][r], part[0][r]);
            acc[1][r] = _mm256_add_ps(acc[1][r], part[1][r]);
        }
    }
    UNROLL for (uint32_t half = 0; half < 2; half++)
        store_outputs(rows, tile, first_row, half, acc[half]);
}

/*
 * F8 types. A register holds a pair of columns of sixteen outputs; byte `o + 2 * parity` of each 32-bit
 * lane is column `o` of the even or the odd outputs. Shifted to where a float has sign, exponent and
 * mantissa, it is the number times 2^-120, subnormal numbers too.
 *
 * Sums of even and of odd outputs are kept apart until they are stored, and so are those of even and
 * odd columns, because one chain of additions would take longer than the rest for a single row. From
 * F8_DECODED_MIN rows on, a block's numbers are decoded once for all rows.
 */
enum { F8_ROWS_MAX = 3, F8_DECODED_MIN = 4, F8_DECODED_MAX = 48 };

INLINE __m256 f8_floats(__m256i pair, uint32_t o, uint32_t parity)
{
    return e4m3_floats(_mm256_slli_epi32(pair, (int)(24 - 8 * (o + 2 * parity))));
}

/* Scales of the even or odd outputs. */
INLINE __m256 f8_scale(const uint8_t *scales, uint32_t parity)
{
    __m256 low = _mm256_loadu_ps((const void *)scales);
    __m256 high = _mm256_loadu_ps((const void *)(scales + 32));
    __m256 mixed = parity == 0 ? _mm256_shuffle_ps(low, high, 0x88)  /* 0 2 8 10 4 6 12 14 */
                               : _mm256_shuffle_ps(low, high, 0xdd); /* 1 3 9 11 5 7 13 15 */
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xd8));
}

/* acc[parity] += scales * (32 columns of `rows` rows). `decoded`: the block's numbers
 * [32][parity][8], or NULL: from `pair`. */
INLINE void f8_block(uint32_t rows, const uint8_t *pair, const float *decoded,
                     const uint8_t *scales, const char *x, size_t stride,
                     __m256 acc[2][F8_ROWS_MAX])
{
    __m256 part[2][2][F8_ROWS_MAX];
    UNROLL for (uint32_t r = 0; r < rows; r++) part[0][0][r] = part[0][1][r] = part[1][0][r] =
        part[1][1][r] = _mm256_setzero_ps();
    for (uint32_t c = 0; c < PACKED_COLUMNS; c += 2, pair += PACKED_F8_PAIR_BYTES) {
        __m256i both = decoded ? _mm256_setzero_si256() : load256(pair);
        UNROLL for (uint32_t o = 0; o < 2; o++) UNROLL for (uint32_t p = 0; p < 2; p++)
        {
            __m256 weights =
                decoded ? _mm256_load_ps(decoded + 16 * (c + o) + 8 * p) : f8_floats(both, o, p);
            UNROLL for (uint32_t r = 0; r < rows; r++)
            {
                const float *xr = (const void *)(x + r * stride);
                part[p][o][r] =
                    _mm256_fmadd_ps(weights, _mm256_broadcast_ss(xr + c + o), part[p][o][r]);
            }
        }
    }
    UNROLL for (uint32_t p = 0; p < 2; p++) UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        __m256 sum = _mm256_add_ps(part[p][0][r], part[p][1][r]);
        acc[p][r] = _mm256_fmadd_ps(sum, f8_scale(scales, p), acc[p][r]);
    }
}

INLINE void store_f8_outputs(uint32_t rows, const struct linear_tile *tile, uint32_t first_row,
                             __m256 acc[2][F8_ROWS_MAX])
{
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        __m256 low = _mm256_unpacklo_ps(acc[0][r], acc[1][r]);  /* 0..3, 8..11 */
        __m256 high = _mm256_unpackhi_ps(acc[0][r], acc[1][r]); /* 4..7, 12..15 */
        acc[0][r] = _mm256_permute2f128_ps(low, high, 0x20);
        acc[1][r] = _mm256_permute2f128_ps(low, high, 0x31);
    }
    UNROLL for (uint32_t half = 0; half < 2; half++)
        store_outputs(rows, tile, first_row, half, acc[half]);
}

INLINE void f8_rows(uint32_t scaled, uint32_t rows, const struct linear_tile *tile,
                    uint32_t first_row)
{
    const char *x = (const char *)tile->x + first_row * tile->x_stride_bytes;
    __m256 acc[2][F8_ROWS_MAX];
    UNROLL for (uint32_t r = 0; r < rows; r++) acc[0][r] = acc[1][r] = _mm256_setzero_ps();
    for (uint32_t first = 0; first < tile->columns; first += PACKED_COLUMNS)
        f8_block(rows, f8_pair(tile, scaled, first), NULL, f8_scales(tile, scaled, first),
                 x + sizeof(float) * first, tile->x_stride_bytes, acc);
    store_f8_outputs(rows, tile, first_row, acc);
}

INLINE void decode_f8_block(const uint8_t *pair, float *decoded)
{
    for (uint32_t c = 0; c < PACKED_COLUMNS; c += 2, pair += PACKED_F8_PAIR_BYTES)
        UNROLL for (uint32_t o = 0; o < 2; o++) UNROLL for (uint32_t p = 0; p < 2; p++)
            _mm256_store_ps(decoded + 16 * (c + o) + 8 * p, f8_floats(load256(pair), o, p));
}

/* At most F8_DECODED_MAX rows: threes, and one or two more. */
INLINE void f8_decoded_rows(uint32_t scaled, const struct linear_tile *tile, uint32_t first_row,
                            uint32_t rows)
{
    _Alignas(32) float decoded[PACKED_COLUMNS * PACKED_ROWS];
    __m256 acc[F8_DECODED_MAX / F8_ROWS_MAX][2][F8_ROWS_MAX];
    memset(acc, 0, sizeof acc);
    const size_t stride = tile->x_stride_bytes;
    const uint32_t whole = rows / F8_ROWS_MAX * F8_ROWS_MAX;
    for (uint32_t first = 0; first < tile->columns; first += PACKED_COLUMNS) {
        const char *x = (const char *)tile->x + first_row * stride + sizeof(float) * first;
        const uint8_t *pair = f8_pair(tile, scaled, first);
        const uint8_t *scales = f8_scales(tile, scaled, first);
        decode_f8_block(pair, decoded);
        for (uint32_t r = 0; r < whole; r += F8_ROWS_MAX)
            f8_block(F8_ROWS_MAX, pair, decoded, scales, x + r * stride, stride,
                     acc[r / F8_ROWS_MAX]);
        if (rows - whole == 2)
            f8_block(2, pair, decoded, scales, x + whole * stride, stride,
                     acc[whole / F8_ROWS_MAX]);
        else if (rows - whole == 1)
            f8_block(1, pair, decoded, scales, x + whole * stride, stride,
                     acc[whole / F8_ROWS_MAX]);
    }
    for (uint32_t r = 0; r < rows; r++) /* one row at a time: its place in a three varies */
    {
        __m256 own[2][F8_ROWS_MAX] = {{acc[r / F8_ROWS_MAX][0][r % F8_ROWS_MAX]},
                                      {acc[r / F8_ROWS_MAX][1][r % F8_ROWS_MAX]}};
        store_f8_outputs(1, tile, first_row + r, own);
    }
}

/* `scaled`: columns per scale. */
INLINE void f8_tile(uint32_t scaled, const struct linear_tile *tile)
{
    uint32_t row = 0;
    while (tile->rows - row >= F8_DECODED_MIN) {
        uint32_t rows = tile->rows - row < F8_DECODED_MAX ? tile->rows - row : F8_DECODED_MAX;
        f8_decoded_rows(scaled, tile, row, rows);
        row += rows;
    }
    switch (tile->rows - row) {
    case 3: f8_rows(scaled, 3, tile, row); break;
    case 2: f8_rows(scaled, 2, tile, row); break;
    case 1: f8_rows(scaled, 1, tile, row); break;
    default: break;
    }
}

/*
 * NF4_64, FP4_64. A number is chosen among the eight of half the table by the nibble's low three bits,
 * and between the halves by its fourth bit.
 */
INLINE __m256 f4_floats(__m256i nibbles, const float numbers[16])
{
    __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(numbers), nibbles);
    __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(numbers + 8), nibbles);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(nibbles, 28)));
}

INLINE void f4_rows(const float numbers[16], uint32_t scaled, uint32_t rows,
                    const struct linear_tile *tile, uint32_t first_row)
{
    const size_t stride = tile->x_stride_bytes;
    const char *x = (const char *)tile->x + first_row * stride;
    __m256 acc[2][F8_ROWS_MAX];
    UNROLL for (uint32_t r = 0; r < rows; r++) acc[0][r] = acc[1][r] = _mm256_setzero_ps();
    for (uint32_t first = 0; first < tile->columns; first += PACKED_COLUMNS) {
        const uint8_t *pair = f4_pair(tile, scaled, first);
        __m256 part[2][F8_ROWS_MAX];
        UNROLL for (uint32_t r = 0; r < rows; r++) part[0][r] = part[1][r] = _mm256_setzero_ps();
        for (uint32_t c = 0; c < PACKED_COLUMNS; c += 2, pair += PACKED_F4_PAIR_BYTES) {
            UNROLL for (uint32_t half = 0; half < 2; half++)
            {
                __m256i both =
                    _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(pair + 8 * half)));
                UNROLL for (uint32_t o = 0; o < 2; o++)
                {
                    __m256 weights = f4_floats(o == 0 ? both : _mm256_srli_epi32(both, 4), numbers);
                    UNROLL for (uint32_t r = 0; r < rows; r++)
                    {
                        const float *xr = (const void *)(x + r * stride);
                        part[half][r] = _mm256_fmadd_ps(
                            weights, _mm256_broadcast_ss(xr + first + c + o), part[half][r]);
                    }
                }
            }
        }
        const float *scales = (const void *)f4_scales(tile, scaled, first);
        UNROLL for (uint32_t half = 0; half < 2; half++) UNROLL for (uint32_t r = 0; r < rows; r++)
            acc[half][r] =
                _mm256_fmadd_ps(part[half][r], _mm256_loadu_ps(scales + 8 * half), acc[half][r]);
    }
    UNROLL for (uint32_t half = 0; half < 2; half++)
        store_outputs(rows, tile, first_row, half, acc[half]);
}

INLINE void f4_tile(const float numbers[16], uint32_t scaled, const struct linear_tile *tile)
{
    uint32_t row = 0;
    for (; row + F8_ROWS_MAX <= tile->rows; row += F8_ROWS_MAX)
        f4_rows(numbers, scaled, F8_ROWS_MAX, tile, row);
    if (tile->rows - row == 2)
        f4_rows(numbers, scaled, 2, tile, row);
    else if (tile->rows - row == 1)
        f4_rows(numbers, scaled, 1, tile, row);
}

INLINE void float_tile(enum packed_kind kind, const struct linear_tile *tile)
{
    uint32_t row = 0;
    for (; row + 6 <= tile->rows; row += 6)
        float_rows(kind, 6, tile, row);
    switch (tile->rows - row) {
    case 5:
        float_rows(kind, 3, tile, row);
        float_rows(kind, 2, tile, row + 3);
        break;
    case 4: float_rows(kind, 4, tile, row); break;
    case 3: float_rows(kind, 3, tile, row); break;
    case 2: float_rows(kind, 2, tile, row); break;
    case 1: float_rows(kind, 1, tile, row); break;
    default: break;
    }
}

#define QUANT_TILE(index, type, number, columns, bytes, bits, span, minimum, center, offset,       \
                   table)                                                                          \
    void linear_avx2_##type(const struct linear_tile *tile)                                        \
    {                                                                                              \
        quantized_tile(KIND(columns, bits, span, minimum, center, table), tile);                   \
    }
GGML_QUANT_LIST(QUANT_TILE)
#undef QUANT_TILE

#define FLOAT_TILE(index, type, number, bits, scaled, table)                                       \
    void linear_avx2_##type(const struct linear_tile *tile)                                        \
    {                                                                                              \
        if ((table) != 0)                                                                          \
            f4_tile(f4_numbers[table], scaled, tile);                                              \
        else if ((scaled) > 0)                                                                     \
            f8_tile(scaled, tile);                                                                 \
        else                                                                                       \
            float_tile(PACKED_##type, tile);                                                       \
    }
GGML_FLOAT_LIST(FLOAT_TILE)
#undef FLOAT_TILE
