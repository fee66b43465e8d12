/*
 * exp() of eight floats, shared by the gate and the attention kernels; a header because it must
 * inline.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2; 2^n by exponent bits, exp(r) by its Taylor polynomial of
 * degree 7 (error below one part in 10^7). Below -87 the result is exactly 0, so that a masked
 * score of -infinity weighs nothing; above 88 it stays at exp(88).
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_SIMD_EXP_AVX2_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_SIMD_EXP_AVX2_H

#include <immintrin.h>

static inline __m256 simd_exp_avx2(__m256 x)
{
    __m256 tiny = _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_LT_OQ);
    __m256 bounded = _mm256_min_ps(x, _mm256_set1_ps(88.0f));
    bounded = _mm256_max_ps(bounded, _mm256_set1_ps(-87.0f));
    __m256 n = _mm256_round_ps(_mm256_mul_ps(bounded, _mm256_set1_ps(1.44269504f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), bounded);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
    __m256 sum = _mm256_set1_ps(1.0f / 5040.0f);
    sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(1.0f / 720.0f));
    sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(1.0f / 120.0f));
    sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(1.0f / 24.0f));
    sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(1.0f / 6.0f));
    sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(0.5f));
    sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(1.0f));
    sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(1.0f));
    __m256i power =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_andnot_ps(tiny, _mm256_mul_ps(sum, _mm256_castsi256_ps(power)));
}

#endif
