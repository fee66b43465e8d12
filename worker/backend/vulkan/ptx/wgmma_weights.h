/*
 * What the products of linear_wgmma.c and moe_wgmma.c share: blocks of packed weights, or floats, that become
 * the factor A in registers, and stages of x that pass through a ring in shared memory as the factor B.
 *
 * The includer defines WARPS, of a group; STAGES, of the ring; of packed weights CODE_BITS, HIGH_BITS, SPANS,
 * MINIMUM and CENTER, or of codes that number the entries of a table TABLE; of E4M3 numbers the first four and
 * E4M3, the columns of a scale; PARTS, times 32 the columns of a stage, 1 unless defined, or 4; of floats FLOATS_AHEAD, the stages of them that a lane has loaded, FLOAT_BYTES and, of two
 * bytes, BRAIN: whether they are bf16.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_PTX_WGMMA_WEIGHTS_H
#define SHOAL_WORKER_BACKEND_VULKAN_PTX_WGMMA_WEIGHTS_H

#include "proto/ggml_type_list.h"
#include "worker/backend/vulkan/ptx/hopper.h"

#ifndef PARTS
#define PARTS 1
#endif
#define BLOCK        32u  /* columns of a block */
#define SLAB         128u /* columns: a block of each of four lanes */
#define SLAB_PARTS   4
#define SLAB_STAGES  (SLAB_PARTS / PARTS)
#define PART_COLUMNS 32u
#define ROW_BYTES    (PART_COLUMNS * 2) /* of a part */
#define THREADS      (WARPS * 32u)

enum { EPILOGUE_STORE, EPILOGUE_ADD, EPILOGUE_GATE_SILU, EPILOGUE_GATE_GELU };
enum { FORM_F32 = 1, FORM_F16 = 2, FORM_STAGED = 16 };

/* gelu(x) by its tanh formula: x * sigmoid(2 u). */
INLINE float gated_value(float gate, float up, u32 epilogue)
{
    float u = epilogue == EPILOGUE_GATE_GELU
                  ? 1.5957691216057308f * (gate + 0.044715f * gate * gate * gate)
                  : gate;
    return divide(gate, 1.0f + power_of_2(-1.4426950408889634f * u)) * up;
}

#ifdef STAGES

extern SHARED __attribute__((aligned(1024))) u8 shared_bytes[];

#ifndef FLOATS_AHEAD

#ifndef E4M3
#define E4M3 0
#endif
#ifndef TABLE
#define TABLE 0
#endif
#define TABLE_IQ4   1 /* GGML_TABLE_… of ggml_type_list.h */
#define TABLE_E2M1  2 /* its scales are E8M0 bytes */
#define TERM_BYTES  (E4M3 ? 4 : TABLE == TABLE_E2M1 ? 1 : 2 * SPANS * (1 + MINIMUM))
#define TERM_BLOCKS (E4M3 ? E4M3 / BLOCK : 1) /* that have the same terms */

/* Of one block of 32 columns; `terms` are scales (of E4M3 an f32), or pairs of scale and minimum. */
struct block {
    u32x4 low;
#if CODE_BITS == 8
    u32x4 tail;
#endif
#if HIGH_BITS > 0
    u32 high[HIGH_BITS];
#endif
    u32 terms[SPANS * (1 + MINIMUM) > 2 ? 2 : 1];
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
    u32 power = ((const GLOBAL u8 *)row.scales)[at];
    b.terms[0] = (u32)GGML_E8M0_HALF(power) * 0x10001u;
#elif SPANS * (1 + MINIMUM) == 1
    b.terms[0] = ((const GLOBAL u16 *)row.scales)[at] * 0x10001u;
#else
    UNROLL for (u32 i = 0; i < SPANS * (1 + MINIMUM) / 2; i++) b.terms[i] =
        ((const GLOBAL u32 *)(row.scales + at * (2 * SPANS * (1 + MINIMUM))))[i];
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
#if MINIMUM
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

#else

/* Eight columns of a row. */
struct floats {
    u32x4 low;
#if FLOAT_BYTES == 4
    u32x4 high;
#endif
};

/* Those of the stage, from `row`, the lane's first of a slab. */
INLINE struct floats load_floats(u64 row, u32 stage)
{
    u64 column = (u64)(stage / SLAB_PARTS) * SLAB + 8 * (stage % SLAB_PARTS);
    const GLOBAL u32x4 *at = (const GLOBAL u32x4 *)(row + column * FLOAT_BYTES);
    struct floats f = {.low = at[0]};
#if FLOAT_BYTES == 4
    f.high = at[1];
#endif
    return f;
}

/* Columns 4 half … 4 half + 3 of the eight as halves, in the order 0 2 | 1 3. */
INLINE void pairs_of(const struct floats *f, u32 half, u32 *even, u32 *odd)
{
#if FLOAT_BYTES == 4
    u32x4 w = half ? f->high : f->low;
    *even = halves_of_floats(bits_as_float(w[0]), bits_as_float(w[2]));
    *odd = halves_of_floats(bits_as_float(w[1]), bits_as_float(w[3]));
#else
    u32 first = f->low[2 * half], second = f->low[2 * half + 1];
#if BRAIN
    *even = halves_of_floats(bits_as_float(first << 16), bits_as_float(second << 16));
    *odd =
        halves_of_floats(bits_as_float(first & 0xffff0000u), bits_as_float(second & 0xffff0000u));
#else
    *even = lows_together(first, second);
    *odd = highs_together(first, second);
#endif
#endif
}

#endif

/* Stages of x in shared memory, and per slot a barrier that x has arrived and a count of the warps
 * that are done with it. */
struct ring {
    u32 rows; /* of a stage, a constant */
    u32 base;
    u64 from;   /* the group's first part in memory */
    u64 stride; /* bytes from there to the next */
    u32 stages; /* of the group */
    u32 stage, slot, parity;
};

INLINE u32 part_bytes(const struct ring *ring)
{
    return ring->rows * ROW_BYTES;
}

INLINE u32 stage_bytes(const struct ring *ring)
{
    return PARTS * part_bytes(ring);
}

INLINE u32 arrived(const struct ring *ring, u32 slot)
{
    return ring->base + STAGES * stage_bytes(ring) + 16 * slot;
}

INLINE void fetch(const struct ring *ring, u32 stage, u32 slot)
{
    arrival_expect(arrived(ring, slot), stage_bytes(ring));
    UNROLL for (u32 i = 0; i < PARTS; i++) copy_bulk(
        ring->base + slot * stage_bytes(ring) + i * part_bytes(ring),
        ring->from + (stage * PARTS + i) * ring->stride, part_bytes(ring), arrived(ring, slot));
}

INLINE void ring_init(const struct ring *ring)
{
    if (THREAD == 0) {
        for (u32 i = 0; i < STAGES; i++) {
            arrival_init(arrived(ring, i), 1);
            shared_store(arrived(ring, i) + 8, 0);
        }
        arrival_publish();
        for (u32 i = 0; i < STAGES && i < ring->stages; i++)
            fetch(ring, i, i);
    }
    group_barrier();
}

/* The stage before the current one has been read. */
INLINE void release_last(const struct ring *ring)
{
    if (ring->stage == 0)
        return;
    u32 slot = ring->slot == 0 ? STAGES - 1 : ring->slot - 1, next = ring->stage - 1 + STAGES;
    if (THREAD % 32 == 0 && count_arrival(arrived(ring, slot) + 8, WARPS - 1) == WARPS - 1 &&
        next < ring->stages)
        fetch(ring, next, slot);
    warp_barrier();
}

INLINE void advance(struct ring *ring)
{
    ring->stage++;
    ring->slot++;
    if (ring->slot == STAGES) {
        ring->slot = 0;
        ring->parity ^= 1;
    }
}

/* The two products of a stage; `a`, of eight, is not that of the stage before, whose products may still
 * read it. */
INLINE void multiply_factor(struct ring *ring, u32 *a, float *d)
{
    arrival_wait(arrived(ring, ring->slot), ring->parity);
    u64 factor = factor_descriptor(ring->base) + (ring->slot * stage_bytes(ring) >> 4);
    products_begin();
    multiply(ring->rows, d, a, factor);
    multiply(ring->rows, d, a + 4, factor + 2);
    products_commit();
    PRODUCTS_WAIT(1);
    release_last(ring);
    advance(ring);
}

#if PARTS == SLAB_PARTS

/* The products of a part of a slab, which is a stage, in the units of each warp: for few rows those of a
 * warpgroup take twice as long. The warp's own products are done when the next begin. */
INLINE void multiply_part(struct ring *ring, const struct block *b0, const struct block *b1,
                          u32 part, float *d)
{
    u32 lane = THREAD % 32, row = lane % 8, a[8], x[4];
    UNROLL for (u32 i = 0; i < 2; i++)
    {
        weights_of(b0, 2 * part + i, &a[4 * i], &a[4 * i + 2]);
        weights_of(b1, 2 * part + i, &a[4 * i + 1], &a[4 * i + 3]);
    }
    if (part == 0) {
        arrival_wait(arrived(ring, ring->slot), ring->parity);
        release_last(ring);
    }
    /* The swizzle of factor_descriptor(). */
    u32 at = ring->base + ring->slot * stage_bytes(ring) + part * part_bytes(ring) +
             row * ROW_BYTES + 16 * (lane / 8 ^ row / 2);
    UNROLL for (u32 i = 0; i < ring->rows / 8; i++)
    {
        load_matrices(x, at + i * 8 * ROW_BYTES);
        multiply_warp(d + 4 * i, a, x);
        multiply_warp(d + 4 * i, a + 4, x + 2);
    }
    if (part == SLAB_PARTS - 1)
        advance(ring);
}

#elif !defined FLOATS_AHEAD

/* Those of stage q of a slab. */
INLINE void multiply_stage(struct ring *ring, const struct block *b0, const struct block *b1, u32 q,
                           u32 *a, float *d)
{
    UNROLL for (u32 i = 0; i < 2; i++)
    {
        weights_of(b0, 2 * q + i, &a[4 * i], &a[4 * i + 2]);
        weights_of(b1, 2 * q + i, &a[4 * i + 1], &a[4 * i + 3]);
    }
    multiply_factor(ring, a, d);
}

#else

INLINE void multiply_floats(struct ring *ring, const struct floats *f0, const struct floats *f1,
                            u32 *a, float *d)
{
    UNROLL for (u32 i = 0; i < 2; i++)
    {
        pairs_of(f0, i, &a[4 * i], &a[4 * i + 2]);
        pairs_of(f1, i, &a[4 * i + 1], &a[4 * i + 3]);
    }
    multiply_factor(ring, a, d);
}

#endif

#endif

#endif
