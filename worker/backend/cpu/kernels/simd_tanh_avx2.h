/*
 * tanh() of eight floats and the soft cap made of it, for attention's scores and the logits; a
 * header because it must inline.
 *
 * tanh(x) = (1 - e) / (1 + e) with e = exp(-2 |x|), and the sign of x. Near 0, where 1 - e cancels,
 * it is x's Taylor polynomial of degree 9 instead (below 1/4 less than one part in 10^8 off).
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_SIMD_TANH_AVX2_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_SIMD_TANH_AVX2_H

#include "worker/backend/cpu/kernels/simd_exp_avx2.h"

static inline __m256 simd_tanh_avx2(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 sign_bit = _mm256_set1_ps(-0.0f);
    __m256 magnitude = _mm256_andnot_ps(sign_bit, x);
    __m256 e = simd_exp_avx2(_mm256_mul_ps(magnitude, _mm256_set1_ps(-2.0f)));
    __m256 far = _mm256_div_ps(_mm256_sub_ps(one, e), _mm256_add_ps(one, e));
    far = _mm256_or_ps(far, _mm256_and_ps(sign_bit, x));
    __m256 square = _mm256_mul_ps(x, x);
    __m256 near = _mm256_set1_ps(62.0f / 2835.0f);
    near = _mm256_fmadd_ps(near, square, _mm256_set1_ps(-17.0f / 315.0f));
    near = _mm256_fmadd_ps(near, square, _mm256_set1_ps(2.0f / 15.0f));
    near = _mm256_fmadd_ps(near, square, _mm256_set1_ps(-1.0f / 3.0f));
    near = _mm256_fmadd_ps(_mm256_mul_ps(near, square), x, x);
    __m256 is_near = _mm256_cmp_ps(magnitude, _mm256_set1_ps(0.25f), _CMP_LT_OQ);
    return _mm256_blendv_ps(far, near, is_near);
}

/* cap * tanh(x / cap) */
static inline __m256 simd_cap_avx2(__m256 x, __m256 cap)
{
    return _mm256_mul_ps(cap, simd_tanh_avx2(_mm256_div_ps(x, cap)));
}

#endif
