/*
 * exp(), tanh() and the soft cap made of it, of eight floats: for gates, attention's scores and the logits.
 * With bodies, because they must inline.
 *
 * exp: x = n ln 2 + r with |r| <= ln 2 / 2; 2^n by exponent bits, exp(r) by its Taylor polynomial of
 * degree 7 (error below one part in 10^7). Below -87 the result is exactly 0, so that a masked
 * score of -infinity weighs nothing; above 88 it stays at exp(88).
 *
 * tanh(x) = (1 - e) / (1 + e) with e = exp(-2 |x|), and the sign of x. Near 0, where 1 - e cancels,
 * it is x's Taylor polynomial of degree 9 instead (below 1/4 less than one part in 10^8 off).
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_SIMD_MATH_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_SIMD_MATH_H

#include "worker/backend/cpu/kernels/simd_floats.h"

SIMD_INLINE simd_floats simd_exp(simd_floats x)
{
    static const float factors[] = {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f,
                                    0.5f,          1.0f,          1.0f};
    simd_mask tiny = simd_below(x, simd_all(-87.0f));
    simd_floats bounded = simd_max(simd_min(x, simd_all(88.0f)), simd_all(-87.0f));
    simd_floats n = simd_round(simd_mul(bounded, simd_all(1.44269504f)));
    simd_floats r = simd_fnma(n, simd_all(0.693359375f), bounded);
    r = simd_fnma(n, simd_all(-2.12194440e-4f), r);
    simd_floats sum = simd_all(1.0f / 5040.0f);
    SIMD_UNROLL for (uint32_t i = 0; i < 7; i++) sum = simd_fma(sum, r, simd_all(factors[i]));
    return simd_clear(tiny, simd_mul(sum, simd_power_of_two(n)));
}

SIMD_INLINE simd_floats simd_tanh(simd_floats x)
{
    const simd_floats one = simd_all(1.0f);
    simd_floats magnitude = simd_magnitude(x);
    simd_floats e = simd_exp(simd_mul(magnitude, simd_all(-2.0f)));
    simd_floats far = simd_with_sign(simd_div(simd_sub(one, e), simd_add(one, e)), x);
    simd_floats square = simd_mul(x, x);
    simd_floats near = simd_all(62.0f / 2835.0f);
    near = simd_fma(near, square, simd_all(-17.0f / 315.0f));
    near = simd_fma(near, square, simd_all(2.0f / 15.0f));
    near = simd_fma(near, square, simd_all(-1.0f / 3.0f));
    near = simd_fma(simd_mul(near, square), x, x);
    return simd_choose(simd_below(magnitude, simd_all(0.25f)), near, far);
}

/* cap * tanh(x / cap) */
SIMD_INLINE simd_floats simd_cap(simd_floats x, simd_floats cap)
{
    return simd_mul(cap, simd_tanh(simd_div(x, cap)));
}

#endif
