/*
 * What wgmma_blocks.h needs of hopper.h, computed on the host, so that tests read packed weights as kernels in PTX do. Numbers of
 * halves are rounded once, as the instructions round them.
 */
#ifndef SHOAL_TESTS_SUPPORT_VULKAN_PTX_HOST_H
#define SHOAL_TESTS_SUPPORT_VULKAN_PTX_HOST_H

#define SHOAL_WORKER_BACKEND_VULKAN_PTX_HOPPER_H /* instead of it */

#include <stdint.h>
#include <string.h>

#include "proto/ggml_half.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef u32 u32x4 __attribute__((vector_size(16)));

#define INLINE static inline
#define GLOBAL
#define UNROLL
#define BLOCK                    32u
#define CODES_AS_HALVES(v, mask) (((v) & (mask)) | 0x64006400u)

/* out = f(a, b, c) of both halves. */
#define EACH_HALF(out, expression)                                                                 \
    u32 out = 0;                                                                                   \
    for (u32 h_ = 0; h_ < 2; h_++)                                                                 \
        out |= (u32)ggml_f32_to_f16((float)(expression)) << 16 * h_;
#define HALF_OF(v) ((double)ggml_f16_to_f32((u16)((v) >> 16 * h_)))

INLINE u32 add_halves(u32 a, u32 b)
{
    EACH_HALF(r, HALF_OF(a) + HALF_OF(b))
    return r;
}

INLINE u32 multiply_halves(u32 a, u32 b)
{
    EACH_HALF(r, HALF_OF(a) * HALF_OF(b))
    return r;
}

INLINE u32 fuse_halves(u32 a, u32 b, u32 c)
{
    EACH_HALF(r, HALF_OF(a) * HALF_OF(b) + HALF_OF(c))
    return r;
}

INLINE u32 halves_of_e2m1(u32 pair)
{
    return multiply_halves((pair & 0x00070007u) << 9 | (pair & 0x00080008u) << 12, 0x78007800u);
}

INLINE u32 lows_twice(u32 v)
{
    return (v & 0xffffu) * 0x10001u;
}

INLINE u32 highs_twice(u32 v)
{
    return (v >> 16) * 0x10001u;
}

/* The bits of an integer as a half. */
INLINE u32 half_bits_of(int value)
{
    return ggml_f32_to_f16((float)value);
}

INLINE u32x4 load_line(u64 at)
{
    u32x4 line;
    memcpy(&line, (const void *)(uintptr_t)at, sizeof line);
    return line;
}

#endif
