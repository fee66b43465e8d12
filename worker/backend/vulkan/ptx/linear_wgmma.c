/*
 * out[r, n] = x[r, :] . W[n, :] in Hopper's warpgroup matrix units, for packed weights or floats and f16 x.
 *
 * Weights are the factor A, from registers: of a slab of 128 columns, lane t of four loads block t of
 * two rows of W (floats a quarter of it at a time), and uses four columns of it in each of the slab's eight products. So a product's
 * sixteen columns are 32 t + 4 f … + 3 for all t; x lies in memory in that order (staged_halves.glsl)
 * and is the factor B, in shared memory.
 *
 * A group has 16 warps, each with 16 rows of W; gated, these are eight of the gate and the same eight
 * of the up. Bulk copies bring x, two products (a stage) at a time, into a ring; the last warp that is
 * done with a stage starts the copy of a later one in its place. Warpgroups do not wait for each other:
 * while one unpacks, the products of others run.
 *
 * With splits a group writes its sums to memory, and the variants sum_… add them up; or, with packed weights in tiles
 * of 128 rows, it computes all splits and adds them up itself, in the same order and so to the same bits. Tiles of 16 and 32 rows are for few rows and for rows that
 * must have the same bits in any number: the units of warps and of warpgroups add up alike.
 */
// variant: q4_0_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=2 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=8
// variant: q4_0_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=8
// variant: q4_1_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=2 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: q4_1_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: q5_0_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=1 -DSPANS=1 -DMINIMUM=0 -DCENTER=16
// variant: q5_0_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=1 -DSPANS=1 -DMINIMUM=0 -DCENTER=16
// variant: q5_1_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=1 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: q5_1_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=1 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: q8_0_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=1 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0
// variant: q8_0_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0
// variant: a8_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=1 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: a8_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: q6_k_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=2 -DSPANS=2 -DMINIMUM=0 -DCENTER=32
// variant: q6_k_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=2 -DSPANS=2 -DMINIMUM=0 -DCENTER=32
// variant: iq4_nl_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=2 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0 -DTABLE=1
// variant: iq4_nl_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0 -DTABLE=1
// variant: e2m1_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=2 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0 -DTABLE=2
// variant: e2m1_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0 -DTABLE=2
// variant: a4_64_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=2 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: a4_64_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: a4_128_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=2 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=128
// variant: a4_128_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=128
// variant: a6_64_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=2 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: a6_64_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=2 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: a8_64_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=1 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: a8_64_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: z4_64_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=2 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=2 -DCENTER=0 -DGROUP=64
// variant: z4_64_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=2 -DCENTER=0 -DGROUP=64
// variant: z4_128_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=2 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=2 -DCENTER=0 -DGROUP=128
// variant: z4_128_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=2 -DCENTER=0 -DGROUP=128
// variant: f8_128_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=1 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DE4M3=128
// variant: f8_128_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DE4M3=128
// variant: f8_32_64 512 -DROWS=64 -DSTAGES=10 -DAHEAD=1 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DE4M3=32
// variant: f8_32_128 512 -DROWS=128 -DSTAGES=5 -DAHEAD=1 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DE4M3=32
// variant: f16_64 512 -DROWS=64 -DSTAGES=10 -DFLOATS_AHEAD=4 -DFLOAT_BYTES=2 -DBRAIN=0
// variant: f16_128 512 -DROWS=128 -DSTAGES=5 -DFLOATS_AHEAD=2 -DFLOAT_BYTES=2 -DBRAIN=0
// variant: bf16_64 512 -DROWS=64 -DSTAGES=10 -DFLOATS_AHEAD=4 -DFLOAT_BYTES=2 -DBRAIN=1
// variant: bf16_128 512 -DROWS=128 -DSTAGES=5 -DFLOATS_AHEAD=2 -DFLOAT_BYTES=2 -DBRAIN=1
// variant: f32_64 512 -DROWS=64 -DSTAGES=10 -DFLOATS_AHEAD=2 -DFLOAT_BYTES=4
// variant: f32_128 512 -DROWS=128 -DSTAGES=5 -DFLOATS_AHEAD=1 -DFLOAT_BYTES=4
// variant: q4_0_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=8
// variant: q4_0_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=8
// variant: q4_1_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: q4_1_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: q5_0_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=1 -DSPANS=1 -DMINIMUM=0 -DCENTER=16
// variant: q5_0_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=1 -DSPANS=1 -DMINIMUM=0 -DCENTER=16
// variant: q5_1_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=1 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: q5_1_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=1 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: q8_0_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=2 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0
// variant: q8_0_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=2 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0
// variant: a8_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=2 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: a8_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=2 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0
// variant: q6_k_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=2 -DSPANS=2 -DMINIMUM=0 -DCENTER=32
// variant: q6_k_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=2 -DSPANS=2 -DMINIMUM=0 -DCENTER=32
// variant: iq4_nl_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0 -DTABLE=1
// variant: iq4_nl_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0 -DTABLE=1
// variant: e2m1_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0 -DTABLE=2
// variant: e2m1_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DCENTER=0 -DTABLE=2
// variant: a4_64_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: a4_64_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: a4_128_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=128
// variant: a4_128_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=128
// variant: a6_64_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=2 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: a6_64_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=2 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: a8_64_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=2 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: a8_64_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=2 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=1 -DCENTER=0 -DGROUP=64
// variant: z4_64_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=2 -DCENTER=0 -DGROUP=64
// variant: z4_64_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=2 -DCENTER=0 -DGROUP=64
// variant: z4_128_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=2 -DCENTER=0 -DGROUP=128
// variant: z4_128_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=4 -DCODE_BITS=4 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=2 -DCENTER=0 -DGROUP=128
// variant: f8_128_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=2 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DE4M3=128
// variant: f8_128_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=2 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DE4M3=128
// variant: f8_32_16 512 -DROWS=16 -DSTAGES=10 -DPARTS=4 -DAHEAD=2 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DE4M3=32
// variant: f8_32_32 512 -DROWS=32 -DSTAGES=5 -DPARTS=4 -DAHEAD=2 -DCODE_BITS=8 -DHIGH_BITS=0 -DSPANS=1 -DMINIMUM=0 -DE4M3=32
// variant: sum_16 512 -DROWS=16 -DSUM
// variant: sum_32 512 -DROWS=32 -DSUM
// variant: sum_64 512 -DROWS=64 -DSUM
// variant: sum_128 512 -DROWS=128 -DSUM
#define WARPS 16u
#if ROWS == 128 && !defined FLOAT_BYTES
#define FOLDS 1 /* a group may compute all splits of its tile */
#else
#define FOLDS 0
#endif
#include "worker/backend/vulkan/ptx/wgmma_weights.h"

#define TILE_ROWS   128u /* of a tile of x in memory */
#define TILE_BYTES  (TILE_ROWS * ROW_BYTES)
#define QUADS       (ROWS / 8u)              /* fours of a lane's sums */
#define ADDED_QUADS (QUADS < 4 ? QUADS : 4u) /* of which the added values are loaded together */

/* struct vulkan_linear_ptx_push, two u32 to a word. */
#define PARAMETERS                                                                                 \
    u64 codes, u64 high, u64 scales, u64 x, u64 out_f32, u64 out_f16, u64 partials, u64 counters,  \
        u64 rows_n, u64 k_stride, u64 splits_steps, u64 epilogue_forms, u64 biases

#define LOW(word)  ((u32)(word))
#define HIGH(word) ((u32)((word) >> 32))

/* What a group computes, and where it goes. */
struct output {
    u64 f32, f16;
    u32 rows, columns, stride, epilogue, forms;
    u32 row;        /* first of the group */
    u32 column;     /* of the lane's first row of W; the second's is 8 further, unless gated */
    u32 first_pair; /* of the lane's rows, 0 2 4 6 */
};

INLINE struct output output_of(u64 f32, u64 f16, u64 rows_n, u64 k_stride, u64 epilogue_forms)
{
    u32 lane = THREAD % 32, warp = THREAD / 32, n = HIGH(rows_n), epilogue = LOW(epilogue_forms);
    bool gated = epilogue >= EPILOGUE_GATE_SILU;
    u32 warp_columns = gated ? 8 : 16;
    struct output o = {.f32 = f32,
                       .f16 = f16,
                       .rows = LOW(rows_n),
                       .columns = gated ? n / 2 : n,
                       .stride = HIGH(k_stride),
                       .epilogue = epilogue,
                       .forms = HIGH(epilogue_forms),
                       .row = GROUP_X * ROWS,
                       .column = (GROUP_Y * WARPS + warp) * warp_columns + lane / 4,
                       .first_pair = 2 * (lane % 4)};
    return o;
}

/* The place that staged_half() of staged_halves.glsl gives. */
INLINE u64 staged_half(u32 row, u32 column, u32 columns)
{
    u32 f = column % 32 / 4, e = column % 4, chunk = f % 2 * 2 + e % 2;
    u64 tile = (u64)(row / TILE_ROWS) * (columns / 32) + column / 128 * 4 + f / 2;
    return tile * (TILE_BYTES / 2) + row % TILE_ROWS * 32 + 8 * (chunk ^ (row / 2 % 4)) +
           column / 32 % 4 * 2 + e / 2;
}

INLINE void put(const struct output *o, u32 row, u32 column, float value)
{
    u64 at = (u64)row * o->stride + column;
    if (o->forms & FORM_F32)
        ((GLOBAL float *)o->f32)[at] = value;
    if (o->forms & (FORM_F16 | FORM_STAGED)) {
        if (o->forms & FORM_STAGED)
            at = staged_half(row, column, o->stride);
        ((GLOBAL u16 *)o->f16)[at] = half_of(value);
    }
}

/* What EPILOGUE_ADD adds to the lane's four sums of eight rows. Rows and columns that do not exist have
 * the value of others. */
INLINE void load_added(const struct output *o, u32 quad, float *values)
{
    UNROLL for (u32 e = 0; e < 2; e++)
    {
        u64 row = min(o->row + 8 * quad + o->first_pair + e, o->rows - 1);
        UNROLL for (u32 h = 0; h < 2; h++)
        {
            u32 column = min(o->column + 8 * h, o->columns - 1);
            values[2 * h + e] = ((const GLOBAL float *)o->f32)[row * o->stride + column];
        }
    }
}

/* The lane's four sums of eight rows, with what EPILOGUE_ADD adds: d[2 h + e] is of row e of its pair and
 * of its row h of W. */
INLINE void finish(const struct output *o, u32 quad, const float *d)
{
    UNROLL for (u32 e = 0; e < 2; e++)
    {
        u32 row = o->row + 8 * quad + o->first_pair + e;
        if (row >= o->rows)
            continue;
        if (o->epilogue >= EPILOGUE_GATE_SILU) {
            if (o->column < o->columns)
                put(o, row, o->column, gated_value(d[e], d[2 + e], o->epilogue));
            else if (o->column < o->stride) /* padding */
                put(o, row, o->column, 0);
            continue;
        }
        UNROLL for (u32 h = 0; h < 2; h++)
        {
            u32 column = o->column + 8 * h;
            if (column < o->columns)
                put(o, row, column, d[2 * h + e]);
        }
    }
}

/* Where the group's sums lie: [splits][QUADS][THREADS] of a tile. */
INLINE GLOBAL f32x4 *partial_sums(u64 partials, u32 splits, u32 split)
{
    u64 tile = (u64)GROUP_Y * GROUPS_X + GROUP_X;
    return (GLOBAL f32x4 *)partials + (tile * splits + split) * (QUADS * THREADS) + THREAD;
}

#ifdef SUM

/* Adds the splits' sums in order; groups share the quads of a tile. */
KERNEL kernel(PARAMETERS)
{
    (void)codes, (void)high, (void)scales, (void)x, (void)counters, (void)biases;
    u32 splits = LOW(splits_steps);
    const struct output o = output_of(out_f32, out_f16, rows_n, k_stride, epilogue_forms);
    for (u32 quad = GROUP_Z; quad < QUADS && o.row + 8 * quad < o.rows; quad += GROUPS_Z) {
        const GLOBAL f32x4 *at = partial_sums(partials, splits, 0) + quad * THREADS;
        f32x4 sum = at[0];
#pragma clang loop unroll_count(4)
        for (u32 s = 1; s < splits; s++)
            sum += at[(u64)s * (QUADS * THREADS)];
        float d[4] = {sum.x, sum.y, sum.z, sum.w};
        if (o.epilogue == EPILOGUE_ADD) {
            float values[4];
            load_added(&o, quad, values);
            UNROLL for (u32 i = 0; i < 4; i++) d[i] += values[i];
        }
        finish(&o, quad, d);
    }
}

#else

/* Sums begin with the biases of the lane's two rows of W, if there are any. */
INLINE void begin_sums(u64 biases, u32 w0, u32 w1, float *d)
{
    const GLOBAL float *from = (const GLOBAL float *)biases;
    float first = biases ? from[w0] : 0, second = biases ? from[w1] : 0;
    UNROLL for (u32 i = 0; i < ROWS / 2; i++) d[i] = i % 4 < 2 ? first : second;
}

#ifdef FLOATS_AHEAD

/* Adds the products of the slabs first … end - 1 of rows w0 and w1 of W to d. */
INLINE void sum_slabs(struct ring *ring, u64 codes, u64 high, u64 scales, u32 k, u32 w0, u32 w1,
                      u32 first, u32 end, float *d)
{
    (void)high, (void)scales;
    u32 t = THREAD % 4, next = first * SLAB_STAGES, last = end * SLAB_STAGES - 1;
    u64 r0 = codes + ((u64)w0 * k + BLOCK * t) * FLOAT_BYTES,
        r1 = codes + ((u64)w1 * k + BLOCK * t) * FLOAT_BYTES;
    struct floats f0[FLOATS_AHEAD], f1[FLOATS_AHEAD];
    u32 even[8], odd[8];
    UNROLL for (u32 i = 0; i < FLOATS_AHEAD; i++, next++)
    {
        f0[i] = load_floats(r0, next);
        f1[i] = load_floats(r1, next);
    }
    ROLLED for (u32 s = first; s < end; s++)
    {
        UNROLL for (u32 q = 0; q < SLAB_STAGES; q++, next++)
        {
            struct floats now0 = f0[q % FLOATS_AHEAD], now1 = f1[q % FLOATS_AHEAD];
            f0[q % FLOATS_AHEAD] = load_floats(r0, min(next, last));
            f1[q % FLOATS_AHEAD] = load_floats(r1, min(next, last));
            multiply_floats(ring, &now0, &now1, q % 2 ? odd : even, d);
        }
    }
}

#elif PARTS == SLAB_PARTS

INLINE void multiply_slab(struct ring *ring, const struct block *b0, const struct block *b1,
                          float *d)
{
    UNROLL for (u32 part = 0; part < SLAB_PARTS; part++) multiply_part(ring, b0, b1, part, d);
}

/* Few rows: AHEAD slabs of weights are on their way, each loaded where one has been unpacked. */
INLINE void sum_slabs(struct ring *ring, u64 codes, u64 high, u64 scales, u32 k, u32 w0, u32 w1,
                      u32 first, u32 end, float *d)
{
    u32 t = THREAD % 4;
    struct row r0 = row_of(codes, high, scales, (u64)w0 * (k / BLOCK) + t);
    struct row r1 = row_of(codes, high, scales, (u64)w1 * (k / BLOCK) + t);
    struct block b0[AHEAD], b1[AHEAD];
    UNROLL for (u32 i = 0; i < AHEAD; i++)
    {
        b0[i] = load_block(r0, min(first + i, end - 1));
        b1[i] = load_block(r1, min(first + i, end - 1));
    }
    u32 s = first;
    ROLLED for (; s + AHEAD <= end; s += AHEAD)
    {
        UNROLL for (u32 i = 0; i < AHEAD; i++)
        {
            multiply_slab(ring, &b0[i], &b1[i], d);
            b0[i] = load_block(r0, min(s + i + AHEAD, end - 1));
            b1[i] = load_block(r1, min(s + i + AHEAD, end - 1));
        }
    }
    UNROLL for (u32 i = 0; i + 1 < AHEAD; i++)
    {
        if (s + i < end)
            multiply_slab(ring, &b0[i], &b1[i], d);
    }
}

#else

INLINE void sum_slabs(struct ring *ring, u64 codes, u64 high, u64 scales, u32 k, u32 w0, u32 w1,
                      u32 first, u32 end, float *d)
{
    u32 t = THREAD % 4;
    struct row r0 = row_of(codes, high, scales, (u64)w0 * (k / BLOCK) + t);
    struct row r1 = row_of(codes, high, scales, (u64)w1 * (k / BLOCK) + t);
    struct block n0 = load_block(r0, first), n1 = load_block(r1, first);
#if AHEAD == 2
    struct block f0 = load_block(r0, min(first + 1, end - 1)),
                 f1 = load_block(r1, min(first + 1, end - 1));
#endif
    u32 even[8], odd[8];
    ROLLED for (u32 s = first; s < end; s++)
    {
        struct block b0 = n0, b1 = n1;
        u32 ahead = min(s + AHEAD, end - 1);
#if AHEAD == 2
        n0 = f0, n1 = f1;
        f0 = load_block(r0, ahead), f1 = load_block(r1, ahead);
#else
        n0 = load_block(r0, ahead), n1 = load_block(r1, ahead);
#endif
        multiply_stage(ring, &b0, &b1, 0, even, d);
        multiply_stage(ring, &b0, &b1, 1, odd, d);
        multiply_stage(ring, &b0, &b1, 2, even, d);
        multiply_stage(ring, &b0, &b1, 3, odd, d);
    }
}

#endif

KERNEL kernel(PARAMETERS)
{
    (void)counters;
    const struct output o = output_of(out_f32, out_f16, rows_n, k_stride, epilogue_forms);
    u32 k = LOW(k_stride), splits = LOW(splits_steps), steps = HIGH(splits_steps);
    bool folds = FOLDS && GROUPS_Z < splits;
    u32 first = GROUP_Z * steps, last = folds ? k / SLAB : min(first + steps, k / SLAB);
    struct ring ring = {.rows = ROWS,
                        .base = shared_address(shared_bytes),
                        .stride = TILE_BYTES,
                        .stages = (last - first) * SLAB_STAGES};
    u64 tile = (u64)(o.row / TILE_ROWS) * (k / PART_COLUMNS) + first * SLAB_PARTS;
    ring.from = x + tile * TILE_BYTES + o.row % TILE_ROWS * ROW_BYTES;
    ring_init(&ring);

    /* Existing rows of W for columns that do not exist. */
    bool gated = o.epilogue >= EPILOGUE_GATE_SILU;
    u32 w0 = min(o.column, o.columns - 1),
        w1 = gated ? w0 + o.columns : min(o.column + 8, o.columns - 1);
    float d[ROWS / 2];
    begin_sums(GROUP_Z == 0 ? biases : 0, w0, w1, d);
#if FOLDS
    volatile float total[ROWS / 2]; /* in memory: registers are full */
    ROLLED for (bool begun = false;; begun = true, first += steps)
    {
        sum_slabs(&ring, codes, high, scales, k, w0, w1, first, min(first + steps, last), d);
        PRODUCTS_WAIT(0);
        if (begun)
            UNROLL for (u32 i = 0; i < ROWS / 2; i++) d[i] += total[i];
        if (first + steps >= last)
            break;
        UNROLL for (u32 i = 0; i < ROWS / 2; i++)
        {
            total[i] = d[i];
            d[i] = 0;
        }
    }
#else
    sum_slabs(&ring, codes, high, scales, k, w0, w1, first, last, d);
    PRODUCTS_WAIT(0);
#endif
    if (splits > 1 && !folds) {
        GLOBAL f32x4 *to = partial_sums(partials, splits, GROUP_Z);
        UNROLL for (u32 quad = 0; quad < QUADS; quad++) to[quad * THREADS] =
            (f32x4){d[4 * quad], d[4 * quad + 1], d[4 * quad + 2], d[4 * quad + 3]};
        return;
    }
    /* Loads of several quads are in flight together: the compiler moves none past a store. */
    UNROLL for (u32 quad = 0; quad < QUADS; quad += ADDED_QUADS)
    {
        if (o.epilogue == EPILOGUE_ADD) {
            float values[4 * ADDED_QUADS];
            UNROLL for (u32 i = 0; i < ADDED_QUADS; i++) load_added(&o, quad + i, values + 4 * i);
            UNROLL for (u32 i = 0; i < 4 * ADDED_QUADS; i++) d[4 * quad + i] += values[i];
        }
        UNROLL for (u32 i = 0; i < ADDED_QUADS; i++) finish(&o, quad + i, d + 4 * (quad + i));
    }
}

#endif
