/*
 * Attention over a paged cache in vectors of eight floats (simd_floats.h); the method is attention_portable.c's, several queries
 * at a time.
 *
 * Keys of a block lie transposed ([head_dim][16 positions]), so that a score is a chain of FMAs in
 * one lane and needs no sum across lanes; values lie by position, so that the weighted sum is a
 * chain too. Each key or value load serves up to SIMD_QUERIES queries: the heads that share the
 * KV head, times a few rows of the prompt.
 *
 * Queries of one call see different ranges. A block that one query may see is scored for all of
 * them and masked: outside its range a query's weight is exactly 0, and adding 0 * v changes
 * nothing, since cached numbers are finite. So the result is that of the query alone.
 *
 * Only the two loads depend on the cache's type; the stages take it as a constant, so the compiler
 * emits one loop per type. Quantized blocks have separate kernels for scores and values
 * (attention_packed_simd.c), and queries and sums are rotated; the softmax is shared. The values of a
 * latent cache are its keys, which are laid out by position in scratch memory, tile by tile.
 */
#include "worker/backend/cpu/kernels/attention_simd.h"

#include <math.h>
#include <string.h>

#include "worker/backend/cpu/kernels/attention_packed_simd.h"
#include "worker/backend/cpu/kernels/simd_math.h"

#define INLINE SIMD_INLINE
#define UNROLL SIMD_UNROLL

enum { BLOCK = KV_BLOCK_TOKENS };

/* State of one call. Query m is row m / heads, head m % heads. */
struct attention_work {
    const struct attention_tile *tile;
    uint32_t query_count;
    float *scaled;  /* [query_count, head_dim] */
    float *weights; /* [query_count, ATTENTION_TILE] scores, then exp(score - maximum) */
    float *turned;  /* latent: [ATTENTION_TILE, head_dim], the tile's keys */
    float *outs[ATTENTION_QUERIES]; /* [head_dim] each, inside tile->out */
    float maximums[ATTENTION_QUERIES];
    float sums[ATTENTION_QUERIES];
    /* Sums of the scaled query's elements by scale of a quantized key. */
    float group_sums[ATTENTION_QUERIES][KV_SEGMENTS_MAX];
};

/* Positions [begin, end) that a row sees. */
struct key_range {
    uint32_t begin;
    uint32_t end;
};

static struct key_range row_range(const struct attention_tile *tile, uint32_t row)
{
    uint32_t next = tile->first_position + row + 1;
    uint32_t begin = tile->window > 0 && next > tile->window ? next - tile->window : 0;
    return (struct key_range){begin, tile->ends ? tile->ends[row] : next};
}

/* The union of the rows' ranges: the first row begins earliest, but a row may end after the next.
 */
static struct key_range all_ranges(const struct attention_tile *tile)
{
    struct key_range all = row_range(tile, 0);
    for (uint32_t row = 1; row < tile->rows; row++) {
        struct key_range range = row_range(tile, row);
        all.end = range.end > all.end ? range.end : all.end;
    }
    return all;
}

/* The elements of a position's block: keys, then values. */
static const uint8_t *block_at(const struct attention_tile *tile, uint32_t position)
{
    return tile->cache + tile->block_table[position / BLOCK] * tile->block_bytes;
}

INLINE simd_floats load8(enum kv_cache_type type, const void *elements, size_t at)
{
    if (type == KV_CACHE_F32)
        return simd_load((const float *)elements + at);
    return simd_load_halves((const uint16_t *)elements + at);
}

INLINE float load1(enum kv_cache_type type, const void *elements, size_t at)
{
    if (type == KV_CACHE_F32)
        return ((const float *)elements)[at];
    return simd_load_half((const uint16_t *)elements + at);
}

/* Scores of queries first..first + count - 1. */
INLINE void score_block(uint32_t count, uint32_t first, enum kv_cache_type type,
                        const struct attention_work *work, const void *keys, uint32_t at)
{
    const uint32_t head_dim = work->tile->head_dim;
    const float *queries = work->scaled + (size_t)first * head_dim;
    simd_floats low[SIMD_QUERIES];
    simd_floats high[SIMD_QUERIES];
    UNROLL for (uint32_t m = 0; m < count; m++) low[m] = high[m] = simd_zero();
    for (uint32_t d = 0; d < head_dim; d++) {
        simd_floats k_low = load8(type, keys, (size_t)BLOCK * d);
        simd_floats k_high = load8(type, keys, (size_t)BLOCK * d + 8);
        UNROLL for (uint32_t m = 0; m < count; m++)
        {
            const float *q = queries + (size_t)m * head_dim + d;
            low[m] = simd_fma_one(q, k_low, low[m]);
            high[m] = simd_fma_one(q, k_high, high[m]);
        }
    }
    UNROLL for (uint32_t m = 0; m < count; m++)
    {
        float *scores = work->weights + (size_t)(first + m) * ATTENTION_TILE + at;
        simd_store(scores, low[m]);
        simd_store(scores + 8, high[m]);
    }
}

/* Turns query m's scores of positions [first, end) (multiples of BLOCK) into weights and updates
 * its maximum and sum. */
static void weigh_scores(struct attention_work *work, uint32_t m, uint32_t first, uint32_t end)
{
    const struct key_range range = row_range(work->tile, m / work->tile->heads);
    float *scores = work->weights + (size_t)m * ATTENTION_TILE + first % ATTENTION_TILE;
    if (range.end <= first || range.begin >= end) {
        memset(scores, 0, (end - first) * sizeof *scores);
        return;
    }
    const simd_floats masked = simd_all(-INFINITY);
    const float cap = work->tile->soft_cap;
    const float *biases =
        work->tile->biases ? work->tile->biases + m * work->tile->bias_stride : NULL;
    simd_floats highest = simd_all(work->maximums[m]);
    for (uint32_t p = first; p < end; p += 8) {
        float *at = scores + (p - first);
        simd_floats s = simd_load(at);
        if (cap > 0.0f)
            s = simd_cap(s, simd_all(cap));
        if (biases)
            s = simd_add(s, simd_load(biases + p));
        s = simd_choose(simd_range(p, range.begin, range.end), s, masked);
        simd_store(at, s);
        highest = simd_max(highest, s);
    }
    float maximum = simd_largest_lane(highest);
    const simd_floats shift = simd_all(maximum);
    simd_floats sums = simd_zero();
    for (uint32_t p = first; p < end; p += 8) {
        float *at = scores + (p - first);
        simd_floats weight = simd_exp(simd_sub(simd_load(at), shift));
        simd_store(at, weight);
        sums = simd_add(sums, weight);
    }
    if (maximum > work->maximums[m]) {
        simd_floats shrink = simd_exp(simd_all(work->maximums[m] - maximum));
        const float shrink_one = simd_first_lane(shrink);
        float *out = work->outs[m];
        uint32_t d = 0;
        for (; d + 8 <= work->tile->head_dim; d += 8)
            simd_store(out + d, simd_mul(simd_load(out + d), shrink));
        for (; d < work->tile->head_dim; d++)
            out[d] *= shrink_one;
        work->sums[m] *= shrink_one;
        work->maximums[m] = maximum;
    }
    work->sums[m] += simd_sum_lanes(sums);
}

/* Lays a latent block's keys out by position. */
INLINE void turn_block(enum kv_cache_type type, const struct attention_work *work, const void *keys,
                       uint32_t at)
{
    const uint32_t head_dim = work->tile->head_dim;
    float *out = work->turned + (size_t)at * head_dim;
    for (uint32_t d = 0; d < head_dim; d++) {
        float lanes[BLOCK];
        simd_store(lanes, load8(type, keys, (size_t)BLOCK * d));
        simd_store(lanes + 8, load8(type, keys, (size_t)BLOCK * d + 8));
        for (uint32_t p = 0; p < BLOCK; p++)
            out[(size_t)p * head_dim + d] = lanes[p];
    }
}

/* The block that holds a position's value, and the index of the value's first element in it. */
INLINE const void *value_block(const struct attention_work *work, bool latent, uint32_t p,
                               size_t *at)
{
    const struct attention_tile *tile = work->tile;
    *at = (size_t)(latent ? p % ATTENTION_TILE : BLOCK + p % BLOCK) * tile->head_dim;
    return latent ? (const void *)work->turned : block_at(tile, p);
}

/* Adds weight * value over positions [begin, end) of one tile for `count` queries and dimensions
 * d..d+15. */
INLINE void add_values(uint32_t count, uint32_t first, enum kv_cache_type type, bool latent,
                       const struct attention_work *work, struct key_range keys, uint32_t d)
{
    const struct attention_tile *tile = work->tile;
    simd_floats low[SIMD_QUERIES];
    simd_floats high[SIMD_QUERIES];
    UNROLL for (uint32_t m = 0; m < count; m++)
    {
        low[m] = simd_load(work->outs[first + m] + d);
        high[m] = simd_load(work->outs[first + m] + d + 8);
    }
    const float *weights = work->weights + (size_t)first * ATTENTION_TILE;
    for (uint32_t p = keys.begin; p < keys.end;) {
        uint32_t stop = (p / BLOCK + 1) * BLOCK;
        stop = stop < keys.end ? stop : keys.end;
        size_t at;
        const void *block = value_block(work, latent, p, &at);
        at += d;
        for (; p < stop; p++, at += tile->head_dim) {
            simd_floats v_low = load8(type, block, at);
            simd_floats v_high = load8(type, block, at + 8);
            UNROLL for (uint32_t m = 0; m < count; m++)
            {
                const float *weight = weights + (size_t)m * ATTENTION_TILE + p % ATTENTION_TILE;
                low[m] = simd_fma_one(weight, v_low, low[m]);
                high[m] = simd_fma_one(weight, v_high, high[m]);
            }
        }
    }
    UNROLL for (uint32_t m = 0; m < count; m++)
    {
        simd_store(work->outs[first + m] + d, low[m]);
        simd_store(work->outs[first + m] + d + 8, high[m]);
    }
}

/* The last head_dim % 16 dimensions, for one query. */
INLINE void add_values_tail(enum kv_cache_type type, bool latent, const struct attention_work *work,
                            uint32_t m, struct key_range keys, uint32_t d)
{
    const struct attention_tile *tile = work->tile;
    const float *weights = work->weights + (size_t)m * ATTENTION_TILE;
    for (; d < tile->head_dim; d++) {
        float sum = work->outs[m][d];
        for (uint32_t p = keys.begin; p < keys.end; p++) {
            size_t at;
            const void *block = value_block(work, latent, p, &at);
            float value = load1(type, block, at + d);
            sum = fmaf(weights[p % ATTENTION_TILE], value, sum);
        }
        work->outs[m][d] = sum;
    }
}

INLINE void add_values_all(enum kv_cache_type type, bool latent, const struct attention_work *work,
                           struct key_range keys)
{
    uint32_t whole = work->tile->head_dim / 16 * 16;
    for (uint32_t d = 0; d < whole; d += 16) {
        ATTENTION_FOR_QUERIES(add_values, work->query_count, type, latent, work, keys, d);
    }
    for (uint32_t m = 0; whole < work->tile->head_dim && m < work->query_count; m++)
        add_values_tail(type, latent, work, m, keys, whole);
}

static void begin_queries(struct attention_work *work)
{
    const struct attention_tile *tile = work->tile;
    for (uint32_t m = 0; m < work->query_count; m++) {
        size_t row = m / tile->heads;
        size_t column = (size_t)(m % tile->heads) * tile->head_dim;
        const float *query = tile->queries + row * tile->query_stride + column;
        work->outs[m] = tile->out + row * tile->out_stride + column;
        work->maximums[m] = tile->sinks ? tile->sinks[m % tile->heads] : -INFINITY;
        work->sums[m] = tile->sinks ? 1.0f : 0.0f;
        for (uint32_t d = 0; d < tile->head_dim; d++)
            work->scaled[(size_t)m * tile->head_dim + d] = query[d] * tile->scale;
        memset(work->outs[m], 0, tile->head_dim * sizeof(float));
        if (tile->codec)
            attention_packed_begin(&tile->codec->key, work->scaled + (size_t)m * tile->head_dim,
                                   work->group_sums[m]);
    }
}

/* Scores and values of one quantized block. */
static void score_packed(const struct attention_work *work, uint32_t block, float *scores)
{
    attention_packed_scores(&work->tile->codec->key, block_at(work->tile, block),
                            &(struct attention_packed_queries){
                                .count = work->query_count,
                                .queries = work->scaled,
                                .group_sums = work->group_sums,
                            },
                            scores);
}

static void add_packed(const struct attention_work *work, uint32_t first, uint32_t end)
{
    const struct kv_codec *codec = work->tile->codec;
    for (uint32_t b = first; b < end; b += BLOCK)
        attention_packed_values(&codec->value, block_at(work->tile, b) + codec->key.bytes,
                                work->weights + b % ATTENTION_TILE, work->query_count, work->outs);
}

static void finish_queries(const struct attention_work *work)
{
    const struct attention_tile *tile = work->tile;
    for (uint32_t m = 0; m < work->query_count; m++) {
        float inverse = 1.0f / work->sums[m];
        for (uint32_t d = 0; d < tile->head_dim; d++)
            work->outs[m][d] *= inverse;
        if (tile->codec && tile->codec->value.rotated)
            kv_rotation_invert(&tile->codec->value.rotation, work->outs[m]);
    }
}

INLINE void attend(enum kv_cache_type type, bool packed, bool latent,
                   const struct attention_tile *tile)
{
    struct attention_work work = {.tile = tile, .query_count = tile->rows * tile->heads};
    work.scaled = tile->scratch;
    work.weights = tile->scratch + (size_t)ATTENTION_QUERIES * tile->head_dim;
    work.turned = work.weights + (size_t)ATTENTION_QUERIES * ATTENTION_TILE;
    begin_queries(&work);
    struct key_range all = all_ranges(tile);
    for (uint32_t p = all.begin; p < all.end;) {
        uint32_t tile_end = (p / ATTENTION_TILE + 1) * ATTENTION_TILE;
        struct key_range keys = {p, tile_end < all.end ? tile_end : all.end};
        uint32_t first_block = p / BLOCK * BLOCK;
        uint32_t blocks_end = (keys.end + BLOCK - 1) / BLOCK * BLOCK;
        for (uint32_t b = first_block; b < blocks_end; b += BLOCK)
            if (packed)
                score_packed(&work, b, work.weights + b % ATTENTION_TILE);
            else
                ATTENTION_FOR_QUERIES(score_block, work.query_count, type, &work, block_at(tile, b),
                                      b % ATTENTION_TILE);
        for (uint32_t b = first_block; latent && b < blocks_end; b += BLOCK)
            turn_block(type, &work, block_at(tile, b), b % ATTENTION_TILE);
        for (uint32_t m = 0; m < work.query_count; m++)
            weigh_scores(&work, m, first_block, blocks_end);
        if (packed)
            add_packed(&work, first_block, blocks_end);
        else
            add_values_all(latent ? KV_CACHE_F32 : type, latent, &work, keys);
        p = keys.end;
    }
    finish_queries(&work);
}

void attention_simd(const struct attention_tile *tile)
{
    if (tile->codec)
        attend(KV_CACHE_F16, true, false, tile);
    else if (tile->latent && tile->cache_type == KV_CACHE_F32)
        attend(KV_CACHE_F32, false, true, tile);
    else if (tile->latent)
        attend(KV_CACHE_F16, false, true, tile);
    else if (tile->cache_type == KV_CACHE_F32)
        attend(KV_CACHE_F32, false, false, tile);
    else
        attend(KV_CACHE_F16, false, false, tile);
}
