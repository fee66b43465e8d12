/*
 * Attention over a paged cache in plain C.
 *
 * Each query keeps the running maximum m, the sum l of exp(score - m) and the weighted sum o of
 * values. Keys are visited in tiles of ATTENTION_TILE positions counted from position 0, so which
 * keys meet in a tile depends on nothing but their positions. A tile first gives every query its
 * scores, then moves m, rescales l and o if m moved, then adds. Keys outside a query's range never
 * enter: neither their scores nor their values are read, so what a block holds beyond the
 * sequence's end, or in blocks given back, does not matter.
 */
#include "worker/backend/cpu/attention_portable.h"

#include <math.h>

#include "worker/backend/cpu/ggml_dequantize.h"

/* The elements of the block that holds a position: keys [head_dim][KV_BLOCK_TOKENS], then values
 * [KV_BLOCK_TOKENS][head_dim]. */
static const void *block_at(const struct attention_tile *tile, uint32_t position)
{
    return tile->cache + tile->block_table[position / KV_BLOCK_TOKENS] * tile->block_bytes;
}

static float element(const struct attention_tile *tile, const void *elements, size_t at)
{
    if (tile->cache_type == KV_CACHE_F32)
        return ((const float *)elements)[at];
    return ggml_f16_to_f32(((const uint16_t *)elements)[at]);
}

static float score(const struct attention_tile *tile, const float *query, uint32_t position)
{
    const void *block = block_at(tile, position);
    const uint32_t slot = position % KV_BLOCK_TOKENS;
    float sum = 0.0f;
    for (uint32_t d = 0; d < tile->head_dim; d++)
        sum += query[d] * tile->scale * element(tile, block, KV_BLOCK_TOKENS * (size_t)d + slot);
    return tile->soft_cap > 0.0f ? tile->soft_cap * tanhf(sum / tile->soft_cap) : sum;
}

/* One query over keys [begin, end) of one tile. */
static void visit_tile(const struct attention_tile *tile, const float *query, uint32_t begin,
                       uint32_t end, float *maximum, float *sum, float *out)
{
    float scores[ATTENTION_TILE];
    float highest = *maximum;
    for (uint32_t p = begin; p < end; p++) {
        scores[p - begin] = score(tile, query, p);
        highest = fmaxf(highest, scores[p - begin]);
    }
    float shrink = expf(*maximum - highest);
    *maximum = highest;
    *sum *= shrink;
    for (uint32_t d = 0; d < tile->head_dim; d++)
        out[d] *= shrink;
    for (uint32_t p = begin; p < end; p++) {
        float weight = expf(scores[p - begin] - highest);
        const void *block = block_at(tile, p);
        size_t at = (KV_BLOCK_TOKENS + p % KV_BLOCK_TOKENS) * (size_t)tile->head_dim;
        *sum += weight;
        for (uint32_t d = 0; d < tile->head_dim; d++)
            out[d] += weight * element(tile, block, at + d);
    }
}

void attention_portable(const struct attention_tile *tile)
{
    for (uint32_t r = 0; r < tile->rows; r++) {
        uint32_t next = tile->first_position + r + 1;
        uint32_t begin = tile->window > 0 && next > tile->window ? next - tile->window : 0;
        uint32_t end = tile->ends ? tile->ends[r] : next;
        for (uint32_t h = 0; h < tile->heads; h++) {
            const float *query = tile->queries + r * tile->query_stride + h * tile->head_dim;
            float *out = tile->out + r * tile->out_stride + h * tile->head_dim;
            float maximum = tile->sinks ? tile->sinks[h] : -INFINITY;
            float sum = tile->sinks ? 1.0f : 0.0f;
            for (uint32_t d = 0; d < tile->head_dim; d++)
                out[d] = 0.0f;
            for (uint32_t p = begin; p < end;) {
                uint32_t stop = (p / ATTENTION_TILE + 1) * ATTENTION_TILE;
                stop = stop < end ? stop : end;
                visit_tile(tile, query, p, stop, &maximum, &sum, out);
                p = stop;
            }
            for (uint32_t d = 0; d < tile->head_dim; d++)
                out[d] /= sum;
        }
    }
}
