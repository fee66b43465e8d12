/*
 * What the products of linear_wgmma.c and moe_wgmma.c share: blocks of packed weights that become the
 * factor A in registers, and stages of x that pass through a ring in shared memory as the factor B.
 *
 * The includer defines WARPS, of a group; of weights CODE_BITS, HIGH_BITS, SPANS, MINIMUM and CENTER; and
 * STAGES, of the ring.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_PTX_WGMMA_WEIGHTS_H
#define SHOAL_WORKER_BACKEND_VULKAN_PTX_WGMMA_WEIGHTS_H

#include "worker/backend/vulkan/ptx/hopper.h"

#define BLOCK         32u  /* columns of a block */
#define SLAB          128u /* columns: a block of each of four lanes */
#define SLAB_STAGES   4u
#define STAGE_COLUMNS 32u
#define ROW_BYTES     (STAGE_COLUMNS * 2) /* of a stage */
#define THREADS       (WARPS * 32u)

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

/* Of one block of 32 columns; `terms` are scales, or pairs of scale and minimum. */
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
                      scales + block * (2 * SPANS * (1 + MINIMUM))};
    return row;
}

INLINE struct block load_block(struct row row, u32 slab)
{
    struct block b;
    u64 at = (u64)slab * 4;
    const GLOBAL u32x4 *codes = (const GLOBAL u32x4 *)(row.codes + at * (4 * CODE_BITS));
    b.low = codes[0];
#if CODE_BITS == 8
    b.tail = codes[1];
#endif
#if HIGH_BITS > 0
    UNROLL for (u32 i = 0; i < HIGH_BITS; i++) b.high[i] =
        ((const GLOBAL u32 *)(row.high + at * (4 * HIGH_BITS)))[i];
#endif
#if SPANS * (1 + MINIMUM) == 1
    b.terms[0] = ((const GLOBAL u16 *)row.scales)[at] * 0x10001u;
#else
    UNROLL for (u32 i = 0; i < SPANS * (1 + MINIMUM) / 2; i++) b.terms[i] =
        ((const GLOBAL u32 *)(row.scales + at * (2 * SPANS * (1 + MINIMUM))))[i];
#endif
    return b;
}

#define HALVES(value) (half_bits_of(value) * 0x10001u)

/* Codes 4 f … 4 f + 3 less the center, exactly, in the order 0 2 | 1 3. */
INLINE void codes_of(const struct block *b, u32 f, u32 *even, u32 *odd)
{
#if CODE_BITS == 4 && HIGH_BITS == 0
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
#if CODE_BITS == 8
    u32 word = (f < 4 ? b->low[f % 4] : b->tail[f % 4]) ^ 0x80808080u;
#elif HIGH_BITS == 2
    u32 word = (b->low[f % 4] >> f / 4 * 4 & 0x0f0f0f0fu) |
               (b->high[f / 4] >> 2 * (f % 4) & 0x03030303u) << 4;
#else
    u32 word = (b->low[f % 4] >> f / 4 * 4 & 0x0f0f0f0fu) | (b->high[0] >> f & 0x01010101u) << 4;
#endif
    const int bias = CODE_BITS == 8 ? 1024 + 128 : 1024 + CENTER;
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

/* Stages of x in shared memory, and per slot a barrier that x has arrived and a count of the warps
 * that are done with it. */
struct ring {
    u32 rows; /* of a stage, a constant */
    u32 base;
    u64 from;   /* the group's first stage in memory */
    u64 stride; /* bytes from there to the next */
    u32 stages; /* of the group */
    u32 stage, slot, parity;
};

INLINE u32 stage_bytes(const struct ring *ring)
{
    return ring->rows * ROW_BYTES;
}

INLINE u32 arrived(const struct ring *ring, u32 slot)
{
    return ring->base + STAGES * stage_bytes(ring) + 16 * slot;
}

INLINE void fetch(const struct ring *ring, u32 stage, u32 slot)
{
    arrival_expect(arrived(ring, slot), stage_bytes(ring));
    copy_bulk(ring->base + slot * stage_bytes(ring), ring->from + stage * ring->stride,
              stage_bytes(ring), arrived(ring, slot));
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

/* The two products of stage q of a slab; `a`, of eight, is not that of the stage before, whose
 * products may still read it. */
INLINE void multiply_stage(struct ring *ring, const struct block *b0, const struct block *b1, u32 q,
                           u32 *a, float *d)
{
    UNROLL for (u32 i = 0; i < 2; i++)
    {
        weights_of(b0, 2 * q + i, &a[4 * i], &a[4 * i + 2]);
        weights_of(b1, 2 * q + i, &a[4 * i + 1], &a[4 * i + 3]);
    }
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

#endif

#endif
