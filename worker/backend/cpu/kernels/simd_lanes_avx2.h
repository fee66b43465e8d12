/*
 * The largest and the sum of eight floats; a header because both must inline. The sum has one order
 * everywhere: halves, then quarters, then neighbours.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_SIMD_LANES_AVX2_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_SIMD_LANES_AVX2_H

#include <immintrin.h>

static inline float simd_largest_lane(__m256 values)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    four = _mm_max_ss(four, _mm_movehdup_ps(four));
    return _mm_cvtss_f32(four);
}

static inline float simd_sum_lanes(__m256 values)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    four = _mm_add_ss(four, _mm_movehdup_ps(four));
    return _mm_cvtss_f32(four);
}

#endif
