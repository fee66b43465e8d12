/*
 * Eight floats for NEON, as two registers: the operations of simd_avx2.h, which has the contracts, for every
 * CPU of AArch64. A product of f16 numbers with FEAT_FP16 or FEAT_FHM is not used: it would round queries and
 * weights to 11 bits.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_SIMD_NEON_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_SIMD_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define SIMD_INLINE static inline __attribute__((always_inline))
#define SIMD_UNROLL _Pragma("GCC unroll 8")

/* With five or six, sums leave the registers. */
#define SIMD_QUERIES 4u

typedef struct simd_floats {
    float32x4_t low;
    float32x4_t high;
} simd_floats;
typedef struct simd_ints {
    int32x4_t low;
    int32x4_t high;
} simd_ints;
typedef struct simd_mask {
    uint32x4_t low;
    uint32x4_t high;
} simd_mask;

typedef struct simd_levels {
    uint8x16x4_t bytes; /* of sixteen floats */
} simd_levels;

SIMD_INLINE simd_floats simd_all(float x)
{
    return (simd_floats){vdupq_n_f32(x), vdupq_n_f32(x)};
}

SIMD_INLINE simd_floats simd_zero(void)
{
    return simd_all(0.0f);
}

SIMD_INLINE simd_floats simd_load(const float *x)
{
    return (simd_floats){vld1q_f32(x), vld1q_f32(x + 4)};
}

SIMD_INLINE void simd_store(float *out, simd_floats x)
{
    vst1q_f32(out, x.low);
    vst1q_f32(out + 4, x.high);
}

SIMD_INLINE float simd_load_half(const uint16_t *half)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vld1_dup_u16(half))), 0);
}

SIMD_INLINE simd_floats simd_load_halves(const uint16_t *halves)
{
    float16x8_t x = vreinterpretq_f16_u16(vld1q_u16(halves));
    return (simd_floats){vcvt_f32_f16(vget_low_f16(x)), vcvt_high_f32_f16(x)};
}

SIMD_INLINE void simd_store_halves(uint16_t *out, simd_floats x)
{
    float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32(x.low), x.high);
    vst1q_u16(out, vreinterpretq_u16_f16(halves));
}

SIMD_INLINE simd_floats simd_add(simd_floats a, simd_floats b)
{
    return (simd_floats){vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
}

SIMD_INLINE simd_floats simd_sub(simd_floats a, simd_floats b)
{
    return (simd_floats){vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)};
}

SIMD_INLINE simd_floats simd_mul(simd_floats a, simd_floats b)
{
    return (simd_floats){vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
}

SIMD_INLINE simd_floats simd_div(simd_floats a, simd_floats b)
{
    return (simd_floats){vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)};
}

SIMD_INLINE simd_floats simd_fma(simd_floats a, simd_floats b, simd_floats sum)
{
    return (simd_floats){vfmaq_f32(sum.low, a.low, b.low), vfmaq_f32(sum.high, a.high, b.high)};
}

SIMD_INLINE simd_floats simd_fnma(simd_floats a, simd_floats b, simd_floats sum)
{
    return (simd_floats){vfmsq_f32(sum.low, a.low, b.low), vfmsq_f32(sum.high, a.high, b.high)};
}

SIMD_INLINE simd_floats simd_fma_one(const float *factor, simd_floats x, simd_floats sum)
{
    float32x4_t all = vld1q_dup_f32(factor);
    return (simd_floats){vfmaq_f32(sum.low, all, x.low), vfmaq_f32(sum.high, all, x.high)};
}

SIMD_INLINE simd_floats simd_choose(simd_mask mask, simd_floats chosen, simd_floats other)
{
    return (simd_floats){vbslq_f32(mask.low, chosen.low, other.low),
                         vbslq_f32(mask.high, chosen.high, other.high)};
}

SIMD_INLINE simd_mask simd_below(simd_floats a, simd_floats b)
{
    return (simd_mask){vcltq_f32(a.low, b.low), vcltq_f32(a.high, b.high)};
}

/* fmax and fmaxnm differ from AVX2 in NaNs. */
SIMD_INLINE simd_floats simd_max(simd_floats a, simd_floats b)
{
    return simd_choose(simd_below(b, a), a, b);
}

SIMD_INLINE simd_floats simd_min(simd_floats a, simd_floats b)
{
    return simd_choose(simd_below(a, b), a, b);
}

SIMD_INLINE simd_floats simd_magnitude(simd_floats x)
{
    return (simd_floats){vabsq_f32(x.low), vabsq_f32(x.high)};
}

SIMD_INLINE simd_floats simd_negate(simd_floats x)
{
    return (simd_floats){vnegq_f32(x.low), vnegq_f32(x.high)};
}

SIMD_INLINE simd_floats simd_with_sign(simd_floats magnitude, simd_floats x)
{
    const uint32x4_t sign = vdupq_n_u32(0x80000000u);
    return (simd_floats){vbslq_f32(sign, x.low, magnitude.low),
                         vbslq_f32(sign, x.high, magnitude.high)};
}

SIMD_INLINE simd_floats simd_clear(simd_mask mask, simd_floats x)
{
    return simd_choose(mask, simd_zero(), x);
}

SIMD_INLINE uint32x4_t simd_range_of_four(uint32_t first, uint32_t begin, uint32_t end)
{
    static const uint32_t lanes[4] = {0, 1, 2, 3};
    uint32x4_t at = vaddq_u32(vdupq_n_u32(first), vld1q_u32(lanes));
    return vandq_u32(vcgeq_u32(at, vdupq_n_u32(begin)), vcltq_u32(at, vdupq_n_u32(end)));
}

SIMD_INLINE simd_mask simd_range(uint32_t first, uint32_t begin, uint32_t end)
{
    return (simd_mask){simd_range_of_four(first, begin, end),
                       simd_range_of_four(first + 4, begin, end)};
}

SIMD_INLINE simd_floats simd_round(simd_floats x)
{
    return (simd_floats){vrndnq_f32(x.low), vrndnq_f32(x.high)};
}

SIMD_INLINE simd_ints simd_to_ints(simd_floats x)
{
    return (simd_ints){vcvtnq_s32_f32(x.low), vcvtnq_s32_f32(x.high)};
}

SIMD_INLINE simd_floats simd_to_floats(simd_ints x)
{
    return (simd_floats){vcvtq_f32_s32(x.low), vcvtq_f32_s32(x.high)};
}

SIMD_INLINE float32x4_t simd_power_of_four(float32x4_t n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23));
}

SIMD_INLINE simd_floats simd_power_of_two(simd_floats n)
{
    return (simd_floats){simd_power_of_four(n.low), simd_power_of_four(n.high)};
}

SIMD_INLINE float simd_first_lane(simd_floats x)
{
    return vgetq_lane_f32(x.low, 0);
}

SIMD_INLINE float simd_largest_lane(simd_floats x)
{
    return vmaxvq_f32(vmaxq_f32(x.low, x.high));
}

SIMD_INLINE float simd_sum_lanes(simd_floats x)
{
    float32x4_t four = vaddq_f32(x.low, x.high);
    return vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
}

SIMD_INLINE simd_floats simd_sum_lanes_of_eight(const float *vectors)
{
    float32x4_t low[4], high[4];
    SIMD_UNROLL for (uint32_t i = 0; i < 4; i++)
    {
        simd_floats a = simd_load(vectors + 16 * i);
        simd_floats b = simd_load(vectors + 16 * i + 8);
        low[i] = vpaddq_f32(a.low, b.low);
        high[i] = vpaddq_f32(a.high, b.high);
    }
    return (simd_floats){vaddq_f32(vpaddq_f32(low[0], low[1]), vpaddq_f32(high[0], high[1])),
                         vaddq_f32(vpaddq_f32(low[2], low[3]), vpaddq_f32(high[2], high[3]))};
}

SIMD_INLINE int8x8_t simd_narrow(simd_ints x)
{
    return vqmovn_s16(vcombine_s16(vqmovn_s32(x.low), vqmovn_s32(x.high)));
}

SIMD_INLINE void simd_store_bytes(int8_t *out, const simd_ints x[4], int32_t sums[2])
{
    SIMD_UNROLL for (uint32_t half = 0; half < 2; half++)
    {
        int8x16_t bytes = vcombine_s8(simd_narrow(x[2 * half]), simd_narrow(x[2 * half + 1]));
        bytes = vmaxq_s8(bytes, vdupq_n_s8(-127));
        vst1q_s8(out + 16 * half, bytes);
        sums[half] = vaddlvq_s8(bytes);
    }
}

/* --- codes of a few bits ------------------------------------------------------------------------- */

SIMD_INLINE simd_ints simd_all_ints(int32_t x)
{
    return (simd_ints){vdupq_n_s32(x), vdupq_n_s32(x)};
}

SIMD_INLINE simd_ints simd_load_ints(const void *x)
{
    const uint8_t *bytes = x;
    return (simd_ints){vreinterpretq_s32_u8(vld1q_u8(bytes)),
                       vreinterpretq_s32_u8(vld1q_u8(bytes + 16))};
}

SIMD_INLINE simd_ints simd_and(simd_ints a, simd_ints b)
{
    return (simd_ints){vandq_s32(a.low, b.low), vandq_s32(a.high, b.high)};
}

SIMD_INLINE int32x4_t simd_shift_four(int32x4_t x, int32x4_t bits)
{
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x), vnegq_s32(bits)));
}

SIMD_INLINE simd_ints simd_shift_right(simd_ints x, simd_ints bits)
{
    return (simd_ints){simd_shift_four(x.low, bits.low), simd_shift_four(x.high, bits.high)};
}

SIMD_INLINE simd_ints simd_spread_bytes(const uint8_t *bytes, simd_ints places)
{
    uint8x16_t eight = vcombine_u8(vld1_u8(bytes), vdup_n_u8(0));
    return (simd_ints){vreinterpretq_s32_u8(vqtbl1q_u8(eight, vreinterpretq_u8_s32(places.low))),
                       vreinterpretq_s32_u8(vqtbl1q_u8(eight, vreinterpretq_u8_s32(places.high)))};
}

SIMD_INLINE simd_floats simd_load_bytes(const uint8_t *bytes)
{
    uint16x8_t wide = vmovl_u8(vld1_u8(bytes));
    return (simd_floats){vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide))),
                         vcvtq_f32_u32(vmovl_high_u16(wide))};
}

SIMD_INLINE simd_levels simd_load_levels(const float levels[16])
{
    simd_levels loaded;
    SIMD_UNROLL for (uint32_t i = 0; i < 4; i++) loaded.bytes.val[i] =
        vreinterpretq_u8_f32(vld1q_f32(levels + 4 * i));
    return loaded;
}

/* Indices of the bytes of the levels that the masked lanes name. */
SIMD_INLINE uint8x16_t simd_level_bytes(int32x4_t x, uint32_t mask)
{
    uint32x4_t level = vandq_u32(vreinterpretq_u32_s32(x), vdupq_n_u32(mask));
    return vreinterpretq_u8_u32(
        vmlaq_u32(vdupq_n_u32(0x03020100u), level, vdupq_n_u32(0x04040404u)));
}

SIMD_INLINE simd_floats simd_pick_of_eight(simd_levels levels, simd_ints x)
{
    const uint8x16x2_t table = {{levels.bytes.val[0], levels.bytes.val[1]}};
    return (simd_floats){vreinterpretq_f32_u8(vqtbl2q_u8(table, simd_level_bytes(x.low, 7))),
                         vreinterpretq_f32_u8(vqtbl2q_u8(table, simd_level_bytes(x.high, 7)))};
}

SIMD_INLINE simd_floats simd_pick_of_sixteen(simd_levels levels, simd_ints x)
{
    return (simd_floats){
        vreinterpretq_f32_u8(vqtbl4q_u8(levels.bytes, simd_level_bytes(x.low, 15))),
        vreinterpretq_f32_u8(vqtbl4q_u8(levels.bytes, simd_level_bytes(x.high, 15)))};
}

#endif
