/*
 * Eight floats for AVX2: the operations that the kernels of rows and of attention are written in. simd_neon.h has
 * the same ones and computes the same bits (of NaNs only that they are NaNs), so those kernels give the same
 * results on both architectures. With bodies, because they must inline.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_SIMD_AVX2_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_SIMD_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define SIMD_INLINE static inline __attribute__((always_inline))
#define SIMD_UNROLL _Pragma("GCC unroll 8")

/* Queries whose sums of sixteen numbers stay in registers. */
#define SIMD_QUERIES 6u

typedef __m256 simd_floats;
typedef __m256i simd_ints;
typedef __m256 simd_mask; /* all bits of a lane or none */
typedef struct simd_levels {
    __m256 low;
    __m256 high;
} simd_levels;

SIMD_INLINE simd_floats simd_zero(void)
{
    return _mm256_setzero_ps();
}

SIMD_INLINE simd_floats simd_all(float x)
{
    return _mm256_set1_ps(x);
}

SIMD_INLINE simd_floats simd_load(const float *x)
{
    return _mm256_loadu_ps(x);
}

SIMD_INLINE void simd_store(float *out, simd_floats x)
{
    _mm256_storeu_ps(out, x);
}

SIMD_INLINE float simd_load_half(const uint16_t *half)
{
    return _cvtsh_ss(*half);
}

SIMD_INLINE simd_floats simd_load_halves(const uint16_t *halves)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)halves));
}

/* Rounds to nearest even. */
SIMD_INLINE void simd_store_halves(uint16_t *out, simd_floats x)
{
    _mm_storeu_si128((void *)out,
                     _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

SIMD_INLINE simd_floats simd_add(simd_floats a, simd_floats b)
{
    return _mm256_add_ps(a, b);
}

SIMD_INLINE simd_floats simd_sub(simd_floats a, simd_floats b)
{
    return _mm256_sub_ps(a, b);
}

SIMD_INLINE simd_floats simd_mul(simd_floats a, simd_floats b)
{
    return _mm256_mul_ps(a, b);
}

SIMD_INLINE simd_floats simd_div(simd_floats a, simd_floats b)
{
    return _mm256_div_ps(a, b);
}

/* a * b + sum, rounded once */
SIMD_INLINE simd_floats simd_fma(simd_floats a, simd_floats b, simd_floats sum)
{
    return _mm256_fmadd_ps(a, b, sum);
}

/* sum - a * b, rounded once */
SIMD_INLINE simd_floats simd_fnma(simd_floats a, simd_floats b, simd_floats sum)
{
    return _mm256_fnmadd_ps(a, b, sum);
}

/* *factor * x + sum, rounded once */
SIMD_INLINE simd_floats simd_fma_one(const float *factor, simd_floats x, simd_floats sum)
{
    return _mm256_fmadd_ps(_mm256_broadcast_ss(factor), x, sum);
}

/* b where a is a NaN, as for simd_min() */
SIMD_INLINE simd_floats simd_max(simd_floats a, simd_floats b)
{
    return _mm256_max_ps(a, b);
}

SIMD_INLINE simd_floats simd_min(simd_floats a, simd_floats b)
{
    return _mm256_min_ps(a, b);
}

SIMD_INLINE simd_floats simd_magnitude(simd_floats x)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

SIMD_INLINE simd_floats simd_negate(simd_floats x)
{
    return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
}

/* magnitude (not negative) with the sign of x */
SIMD_INLINE simd_floats simd_with_sign(simd_floats magnitude, simd_floats x)
{
    return _mm256_or_ps(magnitude, _mm256_and_ps(_mm256_set1_ps(-0.0f), x));
}

SIMD_INLINE simd_mask simd_below(simd_floats a, simd_floats b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}

SIMD_INLINE simd_floats simd_choose(simd_mask mask, simd_floats chosen, simd_floats other)
{
    return _mm256_blendv_ps(other, chosen, mask);
}

/* 0 where the mask is set */
SIMD_INLINE simd_floats simd_clear(simd_mask mask, simd_floats x)
{
    return _mm256_andnot_ps(mask, x);
}

/* Lanes i with begin <= first + i < end. */
SIMD_INLINE simd_mask simd_range(uint32_t first, uint32_t begin, uint32_t end)
{
    __m256i at = _mm256_add_epi32(_mm256_set1_epi32((int32_t)first),
                                  _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)begin), at);
    __m256i inside = _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)end), at);
    return _mm256_castsi256_ps(_mm256_andnot_si256(below, inside));
}

/* To the nearest whole number, to even between two. */
SIMD_INLINE simd_floats simd_round(simd_floats x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* The same as integers; a number beyond them, or a NaN, gives any integer. */
SIMD_INLINE simd_ints simd_to_ints(simd_floats x)
{
    return _mm256_cvtps_epi32(x);
}

SIMD_INLINE simd_floats simd_to_floats(simd_ints x)
{
    return _mm256_cvtepi32_ps(x);
}

/* 2^n for whole numbers n from -126 to 127 */
SIMD_INLINE simd_floats simd_power_of_two(simd_floats n)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}

SIMD_INLINE float simd_first_lane(simd_floats x)
{
    return _mm256_cvtss_f32(x);
}

SIMD_INLINE float simd_largest_lane(simd_floats x)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    four = _mm_max_ss(four, _mm_movehdup_ps(four));
    return _mm_cvtss_f32(four);
}

/* In one order everywhere: halves, then quarters, then neighbours. */
SIMD_INLINE float simd_sum_lanes(simd_floats x)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    four = _mm_add_ss(four, _mm_movehdup_ps(four));
    return _mm_cvtss_f32(four);
}

/* The sums of eight vectors' lanes: neighbours, then quarters, then halves. */
SIMD_INLINE simd_floats simd_sum_lanes_of_eight(const float *vectors)
{
    __m256 pairs[4], fours[2];
    SIMD_UNROLL for (uint32_t i = 0; i < 4; i++) pairs[i] =
        _mm256_hadd_ps(_mm256_loadu_ps(vectors + 16 * i), _mm256_loadu_ps(vectors + 16 * i + 8));
    fours[0] = _mm256_hadd_ps(pairs[0], pairs[1]);
    fours[1] = _mm256_hadd_ps(pairs[2], pairs[3]);
    return _mm256_add_ps(_mm256_permute2f128_ps(fours[0], fours[1], 0x20),
                         _mm256_permute2f128_ps(fours[0], fours[1], 0x31));
}

/* Sum of sixteen signed bytes. */
SIMD_INLINE int32_t simd_sum_bytes(__m128i bytes)
{
    __m128i biased = _mm_xor_si128(bytes, _mm_set1_epi8((char)0x80)); /* + 128 each */
    __m128i sums = _mm_sad_epu8(biased, _mm_setzero_si128());
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 128;
}

/* Stores 32 integers as bytes, limited to -127 and 127, and sums each half. */
SIMD_INLINE void simd_store_bytes(int8_t *out, const simd_ints x[4], int32_t sums[2])
{
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(x[0], x[1]), _mm256_packs_epi32(x[2], x[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    bytes = _mm256_max_epi8(bytes, _mm256_set1_epi8(-127));
    _mm256_storeu_si256((void *)out, bytes);
    sums[0] = simd_sum_bytes(_mm256_castsi256_si128(bytes));
    sums[1] = simd_sum_bytes(_mm256_extracti128_si256(bytes, 1));
}

/* --- codes of a few bits ------------------------------------------------------------------------- */

SIMD_INLINE simd_ints simd_all_ints(int32_t x)
{
    return _mm256_set1_epi32(x);
}

/* `x`: 32 bytes */
SIMD_INLINE simd_ints simd_load_ints(const void *x)
{
    return _mm256_loadu_si256(x);
}

SIMD_INLINE simd_ints simd_and(simd_ints a, simd_ints b)
{
    return _mm256_and_si256(a, b);
}

/* Each lane by as many bits as the same lane of `bits`, which is below 32; zeros come in. */
SIMD_INLINE simd_ints simd_shift_right(simd_ints x, simd_ints bits)
{
    return _mm256_srlv_epi32(x, bits);
}

/* Byte i is bytes[places[i]] of the 8 `bytes`, or 0 if places[i] is 0x80. */
SIMD_INLINE simd_ints simd_spread_bytes(const uint8_t *bytes, simd_ints places)
{
    int64_t eight;
    memcpy(&eight, bytes, sizeof eight);
    return _mm256_shuffle_epi8(_mm256_set1_epi64x(eight), places);
}

/* Eight bytes as numbers. */
SIMD_INLINE simd_floats simd_load_bytes(const uint8_t *bytes)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)bytes)));
}

SIMD_INLINE simd_levels simd_load_levels(const float levels[16])
{
    return (simd_levels){_mm256_loadu_ps(levels), _mm256_loadu_ps(levels + 8)};
}

/* The level of each lane's lowest three bits. */
SIMD_INLINE simd_floats simd_pick_of_eight(simd_levels levels, simd_ints x)
{
    return _mm256_permutevar8x32_ps(levels.low, x);
}

/* The level of each lane's lowest four bits. */
SIMD_INLINE simd_floats simd_pick_of_sixteen(simd_levels levels, simd_ints x)
{
    __m256 high = _mm256_permutevar8x32_ps(levels.high, x);
    return _mm256_blendv_ps(simd_pick_of_eight(levels, x), high,
                            _mm256_castsi256_ps(_mm256_slli_epi32(x, 28)));
}

#endif
