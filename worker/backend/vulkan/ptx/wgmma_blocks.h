/*
 * Blocks of packed weights (vulkan_weight_format.h) as halves, the factor A of products. It needs nothing of a
 * GPU but hopper.h's arithmetic, so a test runs it on the host.
 *
 * The includer defines BLOCK, 32; CODE_BITS, HIGH_BITS, SPANS, MINIMUM and CENTER; of codes that number the entries of a table
 * TABLE; of terms that several blocks share GROUP, the columns of a term; of E4M3 numbers the first four and E4M3, the
 * columns of a scale.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_PTX_WGMMA_BLOCKS_H
#define SHOAL_WORKER_BACKEND_VULKAN_PTX_WGMMA_BLOCKS_H

#include "proto/ggml_type_list.h"
#include "worker/backend/vulkan/ptx/hopper.h"

#ifndef E4M3
#define E4M3 0
#endif
#ifndef TABLE
#define TABLE 0
#endif
#ifndef GROUP
#define GROUP BLOCK
#endif
#define TABLE_IQ4    1 /* GGML_TABLE_… of ggml_type_list.h */
#define TABLE_E2M1   2 /* its scales are E8M0 bytes */
#define MINIMUM_ZERO 2 /* the minimum is a zero point */
#define TERM_COUNT   (SPANS * (MINIMUM ? 2 : 1))
#define TERM_BYTES   (E4M3 ? 4 : TABLE == TABLE_E2M1 ? 1 : 2 * TERM_COUNT)
#define TERM_BLOCKS  ((E4M3 ? E4M3 : GROUP) / BLOCK) /* that have the same terms */

/* Of one block of 32 columns; `terms` are scales (of E4M3 an f32), or pairs of scale and minimum or zero point. */
struct block {
    u32x4 low;
#if CODE_BITS == 8
    u32x4 tail;
#endif
#if HIGH_BITS > 0
    u32 high[HIGH_BITS];
#endif
    u32 terms[TERM_COUNT > 2 ? 2 : 1];
};

/* A lane's blocks of one row of W. */
struct row {
    u64 codes, high, scales;
};

INLINE struct row row_of(u64 codes, u64 high, u64 scales, u64 block)
{
    struct row row = {codes + block * (4 * CODE_BITS), high + block * (4 * HIGH_BITS),
                      scales + block / TERM_BLOCKS * TERM_BYTES};
    return row;
}

INLINE struct block load_block(struct row row, u32 slab)
{
    struct block b;
    u64 at = (u64)slab * 4;
    u64 codes = row.codes + at * (4 * CODE_BITS);
    b.low = load_line(codes);
#if CODE_BITS == 8
    b.tail = load_line(codes + 16);
#endif
#if HIGH_BITS > 0
    UNROLL for (u32 i = 0; i < HIGH_BITS; i++) b.high[i] =
        ((const GLOBAL u32 *)(row.high + at * (4 * HIGH_BITS)))[i];
#endif
#if E4M3
    b.terms[0] = ((const GLOBAL u32 *)row.scales)[at / TERM_BLOCKS];
#elif TABLE == TABLE_E2M1
    int power = ((const GLOBAL u8 *)row.scales)[at];
    b.terms[0] = (u32)GGML_E8M0_HALF(power) * 0x10001u;
#elif TERM_COUNT == 1
    b.terms[0] = ((const GLOBAL u16 *)row.scales)[at] * 0x10001u;
#else
    UNROLL for (u32 i = 0; i < TERM_COUNT / 2; i++) b.terms[i] =
        ((const GLOBAL u32 *)(row.scales + at / TERM_BLOCKS * TERM_BYTES))[i];
#endif
    return b;
}

#define HALVES(value) (half_bits_of(value) * 0x10001u)

#if E4M3

/* The weights 4 f … 4 f + 3, in the order 0 2 | 1 3. */
INLINE void weights_of(const struct block *b, u32 f, u32 *even, u32 *odd)
{
    u32 word = f < 4 ? b->low[f % 4] : b->tail[f % 4];
    u32 low = halves_of_e4m3(word & 0xffff), high = halves_of_e4m3(word >> 16);
    float scale = bits_as_float(b->terms[0]);
    *even = halves_of_floats(float_of_half(low) * scale, float_of_half(high) * scale);
    *odd = halves_of_floats(float_of_half(low >> 16) * scale, float_of_half(high >> 16) * scale);
}

#else

#if TABLE == TABLE_IQ4
/* The entries of four codes, in the low bits of bytes, plus 128 (GGML_IQ4_NUMBERS). */
INLINE u32 iq4_bytes(u32 codes)
{
    u32 pairs = (codes & 0x07070707u) | (codes & 0x07070707u) >> 4;
    u32 selectors = select_bytes(pairs, 0, 0x4420);
    u32 low = select_bytes(0x3f2d1801u, 0x766a5d4fu, selectors);
    u32 high = select_bytes(0xa6998d81u, 0xf1d9c5b5u, selectors);
    u32 upper = (codes >> 3 & 0x01010101u) * 255;
    return low ^ ((low ^ high) & upper);
}
#endif

/* Codes 4 f … 4 f + 3 less the center, exactly, in the order 0 2 | 1 3. */
INLINE void codes_of(const struct block *b, u32 f, u32 *even, u32 *odd)
{
#if TABLE == TABLE_E2M1
    u32 word = b->low[f % 4] >> f / 4 * 4;
    *even = halves_of_e2m1(word);
    *odd = halves_of_e2m1(word >> 8);
#elif CODE_BITS == 4 && HIGH_BITS == 0 && !TABLE
    u32 word = b->low[f % 4];
    if (f < 4) {
        *even = add_halves(CODES_AS_HALVES(word, 0x000f000f), HALVES(-1024 - CENTER));
        *odd = add_halves(CODES_AS_HALVES(word >> 8, 0x000f000f), HALVES(-1024 - CENTER));
    } else { /* (1024 + 16 code) / 16 - 64 - center */
        *even = fuse_halves(CODES_AS_HALVES(word, 0x00f000f0), 0x2c002c00u, HALVES(-64 - CENTER));
        *odd =
            fuse_halves(CODES_AS_HALVES(word >> 8, 0x00f000f0), 0x2c002c00u, HALVES(-64 - CENTER));
    }
#else
#if TABLE == TABLE_IQ4
    u32 word = iq4_bytes(b->low[f % 4] >> f / 4 * 4 & 0x0f0f0f0fu);
#elif CODE_BITS == 8
    u32 word = (f < 4 ? b->low[f % 4] : b->tail[f % 4]) ^ 0x80808080u;
#elif HIGH_BITS == 2
    u32 word = (b->low[f % 4] >> f / 4 * 4 & 0x0f0f0f0fu) |
               (b->high[f / 4] >> 2 * (f % 4) & 0x03030303u) << 4;
#else
    u32 word = (b->low[f % 4] >> f / 4 * 4 & 0x0f0f0f0fu) | (b->high[0] >> f & 0x01010101u) << 4;
#endif
    const int bias = CODE_BITS == 8 || TABLE ? 1024 + 128 : 1024 + CENTER;
    *even = add_halves(CODES_AS_HALVES(word, 0x00ff00ff), HALVES(-bias));
    *odd = add_halves(CODES_AS_HALVES(word >> 8, 0x00ff00ff), HALVES(-bias));
#endif
}

/* The weights of those columns. */
INLINE void weights_of(const struct block *b, u32 f, u32 *even, u32 *odd)
{
    codes_of(b, f, even, odd);
#if MINIMUM == MINIMUM_ZERO
    u32 scale = lows_twice(b->terms[0]), minus_zero = highs_twice(b->terms[0]) ^ 0x80008000u;
    *even = multiply_halves(add_halves(*even, minus_zero), scale);
    *odd = multiply_halves(add_halves(*odd, minus_zero), scale);
#elif MINIMUM
    u32 terms = b->terms[SPANS == 2 ? f / 4 : 0];
    u32 scale = lows_twice(terms), minimum = highs_twice(terms);
    *even = fuse_halves(*even, scale, minimum);
    *odd = fuse_halves(*odd, scale, minimum);
#else
    u32 scale = SPANS == 1 ? b->terms[0]
                : f < 4    ? lows_twice(b->terms[0])
                           : highs_twice(b->terms[0]);
    *even = multiply_halves(*even, scale);
    *odd = multiply_halves(*odd, scale);
#endif
}

#endif

#endif
