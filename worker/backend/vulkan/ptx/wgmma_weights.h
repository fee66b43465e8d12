/*
 * What the products of linear_wgmma.c and moe_wgmma.c share: blocks of packed weights (wgmma_blocks.h), or
 * floats, that become the factor A in registers, and stages of x that pass through a ring in shared memory as the
 * factor B.
 *
 * The includer defines WARPS, of a group; STAGES, of the ring; what wgmma_blocks.h needs; PARTS, times 32 the
 * columns of a stage, 1 unless defined, or 4; of floats FLOATS_AHEAD, the stages of them that a lane has
 * loaded, FLOAT_BYTES and, of two bytes, BRAIN: whether they are bf16.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_PTX_WGMMA_WEIGHTS_H
#define SHOAL_WORKER_BACKEND_VULKAN_PTX_WGMMA_WEIGHTS_H

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

#include "worker/backend/vulkan/ptx/wgmma_blocks.h"

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
