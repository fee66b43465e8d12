/*
 * The linear kernels of quantized kinds with AMX: the integer sums of linear_avx512.c by tiles of sixteen rows
 * by sixteen outputs, then the same operations on floats in the same order, so that a row has the
 * same bits in both tiers. Included once for the instructions (linear_amx.c) and once in plain C, by tests.
 *
 * A step of the kernel is a *chunk*, eight blocks of 32 columns, which is a unit of a K kind. Its weights are unpacked
 * once, to signed bytes in the order of the tiles and to scales as floats, for up to PASS_ROWS rows.
 * Activations are arranged once for all groups (struct arranged_rows): the quants of sixteen rows side by side, scales and
 * sums as vectors. While floats of a block are added up, the tiles compute the next block.
 *
 * A span's integer sum times its K scale is below 2^24 in all kinds (N4_IQ2, the largest of 16 columns twice:
 * 43 * 128 * 16 * 31 * 2; Q6_K: 32 * 128 * 16 * 128 * 2; IQ4_XS: 127 * 128 * 32 * 32), so floats compute these products
 * exactly as the integers of linear_avx512.c do.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_AMX_TILES_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_LINEAR_AMX_TILES_H

#include <stdbool.h>

#include "worker/backend/cpu/kernels/amx_lanes.h"

#define CHUNK_BLOCKS 8u
#define PASS_TILES   4u
#define PASS_ROWS    (PASS_TILES * AMX_ROWS)
#define TILES_AHEAD  1u /* blocks */
#define BLOCK_VALUES (PACKED_ROWS * PACKED_COLUMNS)

/* 32 columns of sixteen rows: both terms. */
struct arranged_block {
    int8_t quants[2][AMX_ROWS][PACKED_COLUMNS];
    float scale[2][AMX_ROWS];
    float sum[2][AMX_ROWS];       /* quantized_term.sum */
    float halves[2][2][AMX_ROWS]; /* sums of quants of 16 columns: [term][half] */
    float total[2][AMX_ROWS];     /* of 32 */
    uint32_t second;              /* bit r: row r has a second term */
    uint32_t unused[15];
};
_Static_assert(sizeof(struct arranged_block) == LINEAR_ARRANGED_BYTES, "linear_scratch_bytes()");

/* Weights of a chunk. */
struct chunk {
    _Alignas(64) int8_t values[CHUNK_BLOCKS][BLOCK_VALUES];
    float scale[CHUNK_BLOCKS][2][PACKED_ROWS];   /* of each span: whole, or K scales */
    float minimum[CHUNK_BLOCKS][2][PACKED_ROWS]; /* likewise; without K scales [0] of the block */
    float super[2][PACKED_ROWS];                 /* of K kinds: of scales and of minimums */
};

/* Sums of floats of sixteen rows. */
struct row_sums {
    _Alignas(64) float first[AMX_ROWS][PACKED_ROWS];
    float second[AMX_ROWS][PACKED_ROWS];
};

/* Integer sums of a block: first[span], second[span]. */
struct block_sums {
    _Alignas(64) int32_t first[2][AMX_ROWS][PACKED_ROWS];
    int32_t second[2][AMX_ROWS][PACKED_ROWS];
};

/* --- activations --- */

INLINE void arrange_row(const struct quantized_block *x, uint32_t row, struct arranged_block *out)
{
    const uint32_t terms = 1 + second_bit(x);
    for (uint32_t t = 0; t < terms; t++) {
        const struct quantized_term *term = &x->term[t];
        memcpy(out->quants[t][row], term->quants, PACKED_COLUMNS);
        out->scale[t][row] = term->scale;
        out->sum[t][row] = term->sum;
        out->halves[t][0][row] = (float)term->pair_sums[0][0];
        out->halves[t][1][row] = (float)term->pair_sums[1][0];
        out->total[t][row] = (float)(term->pair_sums[0][0] + term->pair_sums[1][0]);
    }
    out->second |= (terms - 1) << row;
}

/* Rows [first, end), of which there are at most sixteen; those that are missing stay zeros. */
static void arrange_tile(const struct linear_tile *tile, uint32_t first, uint32_t end,
                         struct arranged_block *out)
{
    const char *x = (const char *)tile->x + first * tile->x_stride_bytes;
    for (uint32_t b = 0; b < tile->columns / PACKED_COLUMNS; b++) {
        out[b].second = 0;
        if (end - first < AMX_ROWS)
            memset(&out[b], 0, sizeof out[b]);
        for (uint32_t r = 0; r < end - first; r++)
            arrange_row(
                (const struct quantized_block *)(const void *)(x + r * tile->x_stride_bytes) + b, r,
                &out[b]);
    }
}

/* [tiles][columns / 32], or NULL if the rows do not fit. */
static const struct arranged_block *arrange(const struct linear_tile *tile, uint32_t rows)
{
    struct linear_scratch *scratch = tile->scratch;
    const uint32_t blocks = tile->columns / PACKED_COLUMNS;
    const uint32_t tiles = (rows + AMX_ROWS - 1) / AMX_ROWS;
    if (!scratch || (size_t)tiles * blocks * sizeof(struct arranged_block) > scratch->bytes)
        return NULL;
    struct arranged_block *out = scratch->memory;
    if (scratch->x == tile->x && scratch->rows == rows && scratch->columns == tile->columns)
        return out;
    for (uint32_t t = 0; t < tiles; t++) {
        uint32_t end = (t + 1) * AMX_ROWS;
        arrange_tile(tile, t * AMX_ROWS, end < rows ? end : rows, out + (size_t)t * blocks);
    }
    scratch->x = tile->x;
    scratch->rows = rows;
    scratch->columns = tile->columns;
    return out;
}

/* --- weights --- */

/* Moves the bits at `from` of every byte to `to` and keeps those in `mask`. */
INLINE bytes64 moved_bits(bytes64 bytes, uint32_t from, uint32_t to, uint8_t mask)
{
    if (from > to)
        bytes = bytes_right(bytes, from - to);
    else if (to > from)
        bytes = bytes_left(bytes, to - from);
    return bytes_and(bytes, mask);
}

/* Quad `quad` for sixteen outputs as signed bytes, of K kinds with their center subtracted. */
INLINE bytes64 signed_quad(struct kind kind, const uint8_t *planes, uint32_t quad)
{
    if (kind.bits == 8)
        return bytes_load(planes + 64 * quad);
    bytes64 value = bytes_zero();
    uint32_t at = 0;
    if (kind.bits & 4) {
        value = moved_bits(bytes_load(planes + 64 * (quad % 4)), quad / 4 * 4, 0, 15);
        if (kind.table)
            return bytes_look_up(table_of(kind), value);
        planes += 256;
        at = 4;
    }
    if (kind.bits & 2) {
        value = bytes_or(value, moved_bits(bytes_load(planes + 64 * (quad / 4)), quad % 4 * 2, at,
                                           (uint8_t)(3u << at)));
        planes += 128;
        at += 2;
    }
    if (kind.bits & 1)
        value = bytes_or(value, moved_bits(bytes_load(planes), quad, at, (uint8_t)(1u << at)));
    return kind.blocks == 8 && kind.center > 0 ? bytes_minus(value, (uint8_t)kind.center) : value;
}

INLINE void unpack_values(struct kind kind, const uint8_t *planes, int8_t *values)
{
    UNROLL for (uint32_t q = 0; q < 8; q++)
        bytes_store(values + 64 * q, signed_quad(kind, planes, q));
    UNROLL for (uint32_t line = 0; line < block_bytes_of(kind) / 64; line++)
        bytes_prefetch(planes + AHEAD_BYTES + 64 * line);
}

/* Scales of span `h` of a block of a kind without K scales. */
INLINE floats16 plain_scale(struct kind kind, const uint8_t *scales, uint32_t h)
{
    if (kind.scales == GGML_SCALES_HALF)
        return floats_of_halves(scales);
    uint32_t bits[PACKED_ROWS];
    for (uint32_t o = 0; o < PACKED_ROWS; o++) {
        uint32_t byte = scales[16 * h + o];
        bits[o] = kind.scales == GGML_SCALES_E8M0
                      ? (byte - 1) << 23
                      : (uint32_t)((int32_t)(byte << 24) >> 4 & E4M3_FLOAT_MASK);
    }
    if (kind.scales == GGML_SCALES_E8M0)
        return floats_load(bits);
    return floats_mul(floats_load(bits), floats_all(E4M3_FLOAT_FACTOR));
}

/* What a block adds for a sum of activations of 1, as load_plain() of linear_avx512.c. */
INLINE floats16 plain_minimum(struct kind kind, const uint8_t *scales, floats16 scale)
{
    if (kind.zero)
        return floats_fnma(scale, floats_of_halves(scales + 32), floats_zero());
    if (kind.minimum && kind.center)
        return floats_fma(scale, floats_all((float)kind.center), floats_of_halves(scales + 32));
    if (kind.minimum)
        return floats_of_halves(scales + 32);
    return floats_mul(scale, floats_all(-(float)kind.center));
}

INLINE bool has_minimum(struct kind kind)
{
    return kind.minimum || (kind.blocks != 8 && kind.center > 0);
}

/* Block `block` of a kind without K scales, which begins at `planes`. */
INLINE void unpack_plain(struct kind kind, const uint8_t *planes, const uint8_t *scales,
                         uint32_t block, struct chunk *out)
{
    unpack_values(kind, planes, out->values[block]);
    for (uint32_t h = 0; h < plain_spans(kind); h++)
        floats_store(out->scale[block][h], plain_scale(kind, scales, h));
    if (has_minimum(kind))
        floats_store(out->minimum[block][0],
                     plain_minimum(kind, scales, floats_load(out->scale[block][0])));
}

/* Sub-scales of 16 columns, or of the block, as floats. */
INLINE void unpack_k(struct kind kind, const uint8_t *planes, uint32_t block, struct chunk *out)
{
    const uint8_t *scales = planes + PACKED_PLANE_BYTES(kind.bits);
    unpack_values(kind, planes, out->values[block]);
    if (kind.span == 32 && kind.minimum) {
        floats_store(out->scale[block][0], floats_of_u8(scales));
        floats_store(out->minimum[block][0], floats_of_u8(scales + 16));
        return;
    }
    for (uint32_t h = 0; h < plain_spans(kind); h++) {
        if (!kind.minimum) {
            floats_store(out->scale[block][h], floats_of_s8(scales + 16 * h));
            continue;
        }
        uint8_t nibbles[2][PACKED_ROWS];
        for (uint32_t o = 0; o < PACKED_ROWS; o++) {
            nibbles[0][o] = scales[16 * h + o] & 15;
            nibbles[1][o] = scales[16 * h + o] >> 4;
        }
        floats_store(out->scale[block][h], floats_of_u8(nibbles[0]));
        floats_store(out->minimum[block][h], floats_of_u8(nibbles[1]));
    }
}

/* Unpacks `blocks` blocks from `unit` on; returns the unit after them. */
INLINE const uint8_t *unpack_chunk(struct kind kind, const uint8_t *unit, uint32_t blocks,
                                   struct chunk *out)
{
    const uint32_t unit_bytes = unit_bytes_of(kind), block_bytes = block_bytes_of(kind);
    if (kind.blocks == 8) {
        for (uint32_t b = 0; b < CHUNK_BLOCKS; b++)
            unpack_k(kind, unit + b * block_bytes, b, out);
        floats_store(out->super[0], floats_of_halves(unit + CHUNK_BLOCKS * block_bytes));
        if (kind.minimum)
            floats_store(out->super[1], floats_of_halves(unit + CHUNK_BLOCKS * block_bytes + 32));
        return unit + unit_bytes;
    }
    for (uint32_t block = 0; block < blocks; block += kind.blocks, unit += unit_bytes)
        for (uint32_t b = 0; b < kind.blocks; b++) {
            const uint8_t *planes = unit + b * PACKED_PLANE_BYTES(kind.bits);
            unpack_plain(kind, planes, planes + scales_after(kind, b), block + b, out);
        }
    return unit;
}

/* --- products --- */

/* What the arithmetic on floats depends on, so that kinds share it. */
struct shape {
    bool k;      /* integer scales below f16 ones */
    bool halves; /* two spans per block */
    bool minimum;
};

/* The tiles' part of a block. */
INLINE void multiply_block(struct shape shape, const int8_t *values, const struct arranged_block *x,
                           struct block_sums *out)
{
    TILE_LOAD(6, values, 64);
    TILE_ZERO(0);
    TILE_LOAD(4, x->quants[0], PACKED_COLUMNS);
    TILE_DOT(0, 4, 6);
    TILE_STORE(0, out->first[0], 64);
    if (shape.halves) {
        TILE_LOAD(7, values + BLOCK_VALUES / 2, 64);
        TILE_ZERO(1);
        TILE_LOAD(5, x->quants[0][0] + 16, PACKED_COLUMNS);
        TILE_DOT(1, 5, 7);
        TILE_STORE(1, out->first[1], 64);
    }
    if (x->second == 0)
        return;
    TILE_ZERO(2);
    TILE_LOAD(4, x->quants[1], PACKED_COLUMNS);
    TILE_DOT(2, 4, 6);
    TILE_STORE(2, out->second[0], 64);
    if (shape.halves) {
        TILE_ZERO(3);
        TILE_LOAD(5, x->quants[1][0] + 16, PACKED_COLUMNS);
        TILE_DOT(3, 5, 7);
        TILE_STORE(3, out->second[1], 64);
    }
}

/* acc plus a block's term of row r, from its integer sums `sums` of one or two spans. */
INLINE floats16 add_products(struct shape shape, const floats16 scale[2],
                             int32_t sums[2][AMX_ROWS][PACKED_ROWS], float x_scale, uint32_t r,
                             floats16 acc)
{
    floats16 first = floats_of_ints(sums[0][r]), factor = floats_all(x_scale);
    if (!shape.k) {
        acc = floats_fma(first, floats_mul(scale[0], factor), acc);
        if (shape.halves)
            acc = floats_fma(floats_of_ints(sums[1][r]), floats_mul(scale[1], factor), acc);
        return acc;
    }
    floats16 whole = floats_mul(first, scale[0]);
    if (shape.halves)
        whole = floats_fma(floats_of_ints(sums[1][r]), scale[1], whole);
    return floats_fma(whole, factor, acc);
}

/* The same for minimums, which K kinds add up apart. */
INLINE floats16 add_minimum(struct shape shape, const floats16 minimum[2],
                            const struct arranged_block *x, uint32_t term, uint32_t r, floats16 acc)
{
    if (!shape.k)
        return floats_fma(minimum[0], floats_all(x->sum[term][r]), acc);
    floats16 whole;
    if (shape.halves)
        whole = floats_fma(minimum[1], floats_all(x->halves[term][1][r]),
                           floats_mul(minimum[0], floats_all(x->halves[term][0][r])));
    else
        whole = floats_mul(minimum[0], floats_all(x->total[term][r]));
    return floats_fma(whole, floats_all(x->scale[term][r]), acc);
}

/* Second terms, of the rows that have one. */
INLINE void add_second(struct shape shape, const floats16 scale[2], const floats16 minimum[2],
                       const struct arranged_block *x, struct block_sums *sums,
                       float products[AMX_ROWS][PACKED_ROWS], float minimums[AMX_ROWS][PACKED_ROWS])
{
    for (uint32_t left = x->second; left != 0; left &= left - 1) {
        uint32_t r = (uint32_t)__builtin_ctz(left);
        floats16 acc =
            add_products(shape, scale, sums->second, x->scale[1][r], r, floats_load(products[r]));
        if (shape.minimum && !shape.k)
            acc = add_minimum(shape, minimum, x, 1, r, acc);
        floats_store(products[r], acc);
        if (shape.minimum && shape.k)
            floats_store(minimums[r],
                         add_minimum(shape, minimum, x, 1, r, floats_load(minimums[r])));
    }
}

/* Minimums of a chunk of a K kind, first terms. */
INLINE void k_minimums(struct shape shape, const struct chunk *w, const struct arranged_block *x,
                       float minimums[AMX_ROWS][PACKED_ROWS])
{
    floats16 acc[AMX_ROWS];
    UNROLL for (uint32_t r = 0; r < AMX_ROWS; r++) acc[r] = floats_zero();
    for (uint32_t b = 0; b < CHUNK_BLOCKS; b++) {
        const floats16 minimum[2] = {floats_load(w->minimum[b][0]), floats_load(w->minimum[b][1])};
        UNROLL for (uint32_t r = 0; r < AMX_ROWS; r++) acc[r] =
            add_minimum(shape, minimum, &x[b], 0, r, acc[r]);
    }
    UNROLL for (uint32_t r = 0; r < AMX_ROWS; r++) floats_store(minimums[r], acc[r]);
}

/* Adds a chunk of a K kind to the rows' sums. */
INLINE void k_end(struct shape shape, const struct chunk *w, const floats16 products[AMX_ROWS],
                  float second[2][AMX_ROWS][PACKED_ROWS], float minimums[AMX_ROWS][PACKED_ROWS],
                  struct row_sums *sums)
{
    const floats16 super = floats_load(w->super[0]), super_minimum = floats_load(w->super[1]);
    UNROLL for (uint32_t r = 0; r < AMX_ROWS; r++)
    {
        floats16 acc = floats_load(sums->first[r]);
        acc = floats_fma(floats_add(products[r], floats_load(second[0][r])), super, acc);
        if (shape.minimum)
            acc = floats_fnma(floats_add(floats_load(minimums[r]), floats_load(second[1][r])),
                              super_minimum, acc);
        floats_store(sums->first[r], acc);
    }
}

/* A chunk of `blocks` blocks times sixteen rows. */
INLINE void chunk_times_rows(struct shape shape, const struct chunk *w, uint32_t blocks,
                             const struct arranged_block *x, struct row_sums *sums)
{
    struct block_sums ints[TILES_AHEAD + 1];
    _Alignas(64) float second[2][AMX_ROWS][PACKED_ROWS];
    _Alignas(64) float minimums[AMX_ROWS][PACKED_ROWS];
    floats16 acc[AMX_ROWS];
    if (shape.k)
        memset(second, 0, shape.minimum ? sizeof second : sizeof second[0]);
    UNROLL for (uint32_t r = 0; r < AMX_ROWS; r++) acc[r] =
        shape.k ? floats_zero() : floats_load(sums->first[r]);
    for (uint32_t b = 0; b < TILES_AHEAD && b < blocks; b++)
        multiply_block(shape, w->values[b], &x[b], &ints[b]);
    for (uint32_t b = 0; b < blocks; b++) {
        const uint32_t ahead = b + TILES_AHEAD;
        if (ahead < blocks)
            multiply_block(shape, w->values[ahead], &x[ahead], &ints[ahead % (TILES_AHEAD + 1)]);
        const floats16 scale[2] = {floats_load(w->scale[b][0]), floats_load(w->scale[b][1])};
        const floats16 minimum[2] = {floats_load(w->minimum[b][0]), floats_load(w->minimum[b][1])};
        struct block_sums *block = &ints[b % (TILES_AHEAD + 1)];
        UNROLL for (uint32_t r = 0; r < AMX_ROWS; r++)
        {
            acc[r] = add_products(shape, scale, block->first, x[b].scale[0][r], r, acc[r]);
            if (shape.minimum && !shape.k)
                acc[r] = add_minimum(shape, minimum, &x[b], 0, r, acc[r]);
        }
        add_second(shape, scale, minimum, &x[b], block, shape.k ? second[0] : sums->second,
                   second[1]);
    }
    if (shape.k) {
        if (shape.minimum)
            k_minimums(shape, w, x, minimums);
        k_end(shape, w, acc, second, minimums, sums);
        return;
    }
    UNROLL for (uint32_t r = 0; r < AMX_ROWS; r++) floats_store(sums->first[r], acc[r]);
}

/* One function per shape. */
typedef void chunk_fn(const struct chunk *w, uint32_t blocks, const struct arranged_block *x,
                      struct row_sums *sums);
#define CHUNK_FUNCTION(name, ...)                                                                  \
    static __attribute__((noinline)) void name(const struct chunk *w, uint32_t blocks,             \
                                               const struct arranged_block *x,                     \
                                               struct row_sums *sums)                              \
    {                                                                                              \
        chunk_times_rows((struct shape){__VA_ARGS__}, w, blocks, x, sums);                         \
    }
CHUNK_FUNCTION(plain_chunk, false, false, false)
CHUNK_FUNCTION(plain_chunk_minimum, false, false, true)
CHUNK_FUNCTION(plain_chunk_halves, false, true, false)
CHUNK_FUNCTION(k_chunk, true, false, false)
CHUNK_FUNCTION(k_chunk_minimum, true, false, true)
CHUNK_FUNCTION(k_chunk_halves, true, true, false)
CHUNK_FUNCTION(k_chunk_halves_minimum, true, true, true)
#undef CHUNK_FUNCTION

INLINE chunk_fn *chunk_function(struct kind kind)
{
    const bool minimum = has_minimum(kind), halves = kind.span == 16;
    if (kind.blocks == 8)
        return halves ? (minimum ? k_chunk_halves_minimum : k_chunk_halves)
                      : (minimum ? k_chunk_minimum : k_chunk);
    return halves ? plain_chunk_halves : minimum ? plain_chunk_minimum : plain_chunk;
}

/* Row `row` of the call, from its sums. */
INLINE void store_row(struct kind kind, const struct linear_tile *tile, uint32_t row,
                      const struct row_sums *sums)
{
    const size_t at = row * tile->out_stride;
    const uint32_t r = row % AMX_ROWS;
    floats16 value = floats_load(sums->first[r]);
    if (kind.blocks != 8)
        value = floats_add(value, floats_load(sums->second[r]));
    if (kind.scales == GGML_SCALES_E4M3)
        value = floats_mul(value, floats_load(tile->group));
    if (tile->add)
        value = floats_add(floats_load(tile->add + at), value);
    floats_store(tile->out + at, value);
}

/* Rows [first, end), at most PASS_ROWS, which are arranged from x on. */
INLINE void pass_rows(struct kind kind, const struct linear_tile *tile, uint32_t first,
                      uint32_t end, const struct arranged_block *x)
{
    const uint32_t blocks = tile->columns / PACKED_COLUMNS;
    const uint32_t tiles = (end - first + AMX_ROWS - 1) / AMX_ROWS;
    const uint8_t *unit = tile->group + PACKED_FACTOR_BYTES(kind.span, kind.table);
    chunk_fn *const times_rows = chunk_function(kind);
    struct row_sums sums[PASS_TILES];
    struct chunk chunk;
    memset(sums, 0, tiles * sizeof sums[0]);
    for (uint32_t b = 0; b < blocks; b += CHUNK_BLOCKS) {
        const uint32_t count = blocks - b < CHUNK_BLOCKS ? blocks - b : CHUNK_BLOCKS;
        unit = unpack_chunk(kind, unit, count, &chunk);
        for (uint32_t t = 0; t < tiles; t++)
            times_rows(&chunk, count, x + (size_t)t * blocks + b, &sums[t]);
    }
    for (uint32_t row = first; row < end; row++)
        store_row(kind, tile, row, &sums[(row - first) / AMX_ROWS]);
}

/* The first `rows` rows; false: the thread's scratch memory does not hold them. */
INLINE bool amx_rows(struct kind kind, const struct linear_tile *tile, uint32_t rows)
{
    const struct arranged_block *x = arrange(tile, rows);
    if (!x)
        return false;
    const struct tile_config config = tile_config_of(kind.span == 16 ? 16 : 32);
    tiles_configure(&config);
    for (uint32_t row = 0; row < rows; row += PASS_ROWS) {
        uint32_t end = rows - row < PASS_ROWS ? rows : row + PASS_ROWS;
        pass_rows(kind, tile, row, end,
                  x + (size_t)(row / AMX_ROWS) * (tile->columns / PACKED_COLUMNS));
    }
    tiles_release();
    return true;
}

#endif
