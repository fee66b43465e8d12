/*
 * out[p, n] = x(p) . W[expert(p), n, :] for tiles of up to ROWS pairs of one expert, in Hopper's
 * warpgroup matrix units, for packed weights: linear_wgmma.c for experts.
 *
 * moe_gather.comp has laid the pairs' rows of x out in the order of their experts, each expert's from a
 * multiple of eight on: pieces of 32 columns of one sort (staged_halves.glsl), [k / 32][x_rows][32].
 * So a tile's rows of a stage are one copy. Rows after the tile's are another expert's or anything; their
 * sums are not written.
 *
 * A tile that is not full uses narrower products: what is left is unpacking the weights. Only the device
 * knows the number of tiles, so the grid has the maximum, and groups without a tile return at once.
 *
 * Grid: (columns of out, tiles).
 */
// variant: q4_0 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=8
// variant: q4_1 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: q5_0 512 -DCODE_BITS=4 -DHIGH_BITS=1 -DSPANS=1 -DMINIMUM=0 -DCENTER=16
// variant: q5_1 512 -DCODE_BITS=4 -DHIGH_BITS=1 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: q8_0 512 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0
// variant: a8 512 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: q6_k 512 -DCODE_BITS=4 -DHIGH_BITS=2 -DSPANS=2 -DMINIMUM=0 -DCENTER=32
// variant: iq4_nl 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0 -DTABLE=1
// variant: e2m1 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0 -DTABLE=2
// variant: a4_64 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: a4_128 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=128
// variant: a6_64 512 -DCODE_BITS=4 -DHIGH_BITS=2 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: a8_64 512 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: z4_64 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=2 -DCENTER=0 -DGROUP=64
// variant: z4_128 512 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=2 -DCENTER=0 -DGROUP=128
// variant: f8_128 512 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DE4M3=128
// variant: f8_32 512 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DE4M3=32
#define ROWS   128u /* of a tile */
#define WARPS  16u
#define STAGES 5u
#include "worker/backend/vulkan/ptx/wgmma_weights.h"

/* struct vulkan_moe_ptx_push, two u32 to a word. */
#define PARAMETERS                                                                                 \
    u64 codes, u64 high, u64 scales, u64 up_codes, u64 up_high, u64 up_scales, u64 x, u64 out_f32, \
        u64 out_f16, u64 groups, u64 n_k, u64 rows_up, u64 strides, u64 pairs_offset,              \
        u64 epilogue_forms, u64 x_rows

#define LOW(word)  ((u32)(word))
#define HIGH(word) ((u32)((word) >> 32))

/* MoeTile of moe_groups.glsl. */
struct tile {
    u32 expert, first, count, place;
};

struct task {
    struct tile tile;
    struct row gate, up; /* of the lane's rows of W, `up` of the second one */
    u64 x, f32, f16, pairs;
    u32 k, columns, stride, epilogue, forms, x_rows;
    u32 column;     /* of the lane's first row of W; the second's is 8 further, unless gated */
    u32 first_pair; /* of the lane's rows, 0 2 4 6 */
};

INLINE void put(const struct task *t, u32 pair, u32 column, float value)
{
    u64 at = (u64)pair * t->stride + column;
    if (column >= t->columns)
        return;
    if (t->forms & FORM_F32)
        ((GLOBAL float *)t->f32)[at] = value;
    if (t->forms & FORM_F16)
        ((GLOBAL u16 *)t->f16)[at] = half_of(value);
}

/* The lane's four sums of eight rows: d[2 h + e] is of row e of its pair and of its row h of W. */
INLINE void finish(const struct task *t, u32 quad, const float *d)
{
    UNROLL for (u32 e = 0; e < 2; e++)
    {
        u32 row = 8 * quad + t->first_pair + e;
        if (row >= t->tile.count)
            continue;
        u32 pair = ((const GLOBAL u32 *)t->pairs)[t->tile.first + row];
        if (t->epilogue >= EPILOGUE_GATE_SILU) {
            put(t, pair, t->column, gated_value(d[e], d[2 + e], t->epilogue));
        } else {
            put(t, pair, t->column, d[e]);
            put(t, pair, t->column + 8, d[2 + e]);
        }
    }
}

/* The tile by products of `rows` rows, a constant. */
INLINE void multiply_tile(const struct task *t, u32 rows)
{
    u32 end = t->k / SLAB;
    struct ring ring = {.rows = rows,
                        .base = shared_address(shared_bytes),
                        .stages = end * SLAB_STAGES,
                        .stride = (u64)t->x_rows * ROW_BYTES,
                        .from = t->x + (u64)t->tile.place * ROW_BYTES};
    struct block n0 = load_block(t->gate, 0), n1 = load_block(t->up, 0);
    ring_init(&ring);
    float d[ROWS / 2];
    UNROLL for (u32 i = 0; i < rows / 2; i++) d[i] = 0;
    u32 even[8], odd[8];
    ROLLED for (u32 s = 0; s < end; s++)
    {
        struct block b0 = n0, b1 = n1;
        u32 ahead = min(s + 1, end - 1);
        n0 = load_block(t->gate, ahead), n1 = load_block(t->up, ahead);
        multiply_stage(&ring, &b0, &b1, 0, even, d);
        multiply_stage(&ring, &b0, &b1, 1, odd, d);
        multiply_stage(&ring, &b0, &b1, 2, even, d);
        multiply_stage(&ring, &b0, &b1, 3, odd, d);
    }
    PRODUCTS_WAIT(0);
    UNROLL for (u32 quad = 0; quad < rows / 8; quad++) finish(t, quad, d + 4 * quad);
}

KERNEL kernel(PARAMETERS)
{
    if (GROUP_Y >= *(const GLOBAL u32 *)groups)
        return;
    u32x4 words = ((const GLOBAL u32x4 *)groups)[1 + GROUP_Y];
    u32 n = LOW(n_k), k = HIGH(n_k), lane = THREAD % 32, warp = THREAD / 32;
    bool gated = LOW(epilogue_forms) >= EPILOGUE_GATE_SILU;
    struct task t = {.tile = {words.x, words.y, words.z, words.w},
                     .x = x,
                     .f32 = out_f32,
                     .f16 = out_f16,
                     .pairs = groups + HIGH(pairs_offset),
                     .k = k,
                     .columns = n,
                     .stride = HIGH(strides),
                     .epilogue = LOW(epilogue_forms),
                     .forms = HIGH(epilogue_forms),
                     .x_rows = LOW(x_rows),
                     .column = (GROUP_X * WARPS + warp) * (gated ? 8 : 16) + lane / 4,
                     .first_pair = 2 * (lane % 4)};
    /* Existing rows of W for columns that do not exist. */
    u64 base = (u64)t.tile.expert * LOW(rows_up), blocks = k / BLOCK;
    u64 w0 = base + min(t.column, n - 1) * LOW(strides);
    u64 w1 = gated ? w0 + HIGH(rows_up) : base + min(t.column + 8, n - 1) * LOW(strides);
    t.gate = row_of(codes, high, scales, w0 * blocks + lane % 4);
    t.up = gated ? row_of(up_codes, up_high, up_scales, w1 * blocks + lane % 4)
                 : row_of(codes, high, scales, w1 * blocks + lane % 4);
    if (t.tile.count > 64)
        multiply_tile(&t, 128);
    else if (t.tile.count > 32)
        multiply_tile(&t, 64);
    else
        multiply_tile(&t, 32);
}
