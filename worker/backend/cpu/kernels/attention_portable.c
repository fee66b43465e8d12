/*
 * Attention over a paged cache in plain C.
 *
 * Each query keeps the running maximum m, the sum l of exp(score - m) and the weighted sum o of
 * values. Keys are visited in tiles of ATTENTION_TILE positions counted from position 0, so
 * the tile of a key depends only on its position. A tile computes every query's scores, updates m,
 * rescales l and o if m changed, then adds. Keys and values outside a query's range are not read,
 * so the contents of a block beyond the sequence's end, or of freed blocks, do not matter.
 *
 * A quantized position is decoded as a row (kv_codec.h), in the rotated space where there is one.
 */
#include "worker/backend/cpu/kernels/attention_portable.h"

#include <math.h>
#include <string.h>

#include "worker/backend/host/ggml_dequantize.h"

/* The block that holds a position: keys, then values. */
static const uint8_t *block_at(const struct attention_tile *tile, uint32_t position)
{
    return tile->cache + tile->block_table[position / KV_BLOCK_TOKENS] * tile->block_bytes;
}

static float element(const struct attention_tile *tile, const uint8_t *elements, size_t at)
{
    if (tile->cache_type == KV_CACHE_F32)
        return ((const float *)(const void *)elements)[at];
    return ggml_f16_to_f32(((const uint16_t *)(const void *)elements)[at]);
}

/* key [head_dim] of a position. Elements lie [head_dim][KV_BLOCK_TOKENS]. */
static void load_key(const struct attention_tile *tile, uint32_t position, float *key)
{
    const uint8_t *block = block_at(tile, position);
    const uint32_t slot = position % KV_BLOCK_TOKENS;
    if (tile->codec) {
        kv_codec_decode(&tile->codec->key, block, slot, key);
        return;
    }
    for (uint32_t d = 0; d < tile->head_dim; d++)
        key[d] = element(tile, block, KV_BLOCK_TOKENS * (size_t)d + slot);
}

/* value [head_dim] of a position. Elements follow the keys, [KV_BLOCK_TOKENS][head_dim]; of a latent cache
 * they are the key's. */
static void load_value(const struct attention_tile *tile, uint32_t position, float *value)
{
    const uint8_t *block = block_at(tile, position);
    const uint32_t slot = position % KV_BLOCK_TOKENS;
    if (tile->latent) {
        load_key(tile, position, value);
        return;
    }
    if (tile->codec) {
        kv_codec_decode(&tile->codec->value, block + tile->codec->key.bytes, slot, value);
        return;
    }
    for (uint32_t d = 0; d < tile->head_dim; d++)
        value[d] = element(tile, block, (KV_BLOCK_TOKENS + slot) * (size_t)tile->head_dim + d);
}

static float score(const struct attention_tile *tile, const float *query, uint32_t position)
{
    float key[LIMIT_LATENT_COLUMNS];
    float sum = 0.0f;
    load_key(tile, position, key);
    for (uint32_t d = 0; d < tile->head_dim; d++)
        sum += query[d] * tile->scale * key[d];
    return tile->soft_cap > 0.0f ? tile->soft_cap * tanhf(sum / tile->soft_cap) : sum;
}

/* One query over keys [begin, end) of one tile. `biases`: of its scores, by position, or NULL. */
static void visit_tile(const struct attention_tile *tile, const float *query, const float *biases,
                       uint32_t begin, uint32_t end, float *maximum, float *sum, float *out)
{
    float scores[ATTENTION_TILE];
    float highest = *maximum;
    for (uint32_t p = begin; p < end; p++) {
        scores[p - begin] = score(tile, query, p) + (biases ? biases[p] : 0.0f);
        highest = fmaxf(highest, scores[p - begin]);
    }
    float shrink = expf(*maximum - highest);
    *maximum = highest;
    *sum *= shrink;
    for (uint32_t d = 0; d < tile->head_dim; d++)
        out[d] *= shrink;
    for (uint32_t p = begin; p < end; p++) {
        float weight = expf(scores[p - begin] - highest);
        float value[LIMIT_LATENT_COLUMNS];
        load_value(tile, p, value);
        *sum += weight;
        for (uint32_t d = 0; d < tile->head_dim; d++)
            out[d] += weight * value[d];
    }
}

/* The query in the space of the keys: as it is, or rotated into scratch memory. */
static const float *find_query(const struct attention_tile *tile, uint32_t row, uint32_t head)
{
    const float *query = tile->queries + row * tile->query_stride + head * tile->head_dim;
    if (!tile->codec || !tile->codec->key.rotated)
        return query;
    memcpy(tile->scratch, query, tile->head_dim * sizeof *query);
    kv_rotation_apply(&tile->codec->key.rotation, tile->scratch);
    return tile->scratch;
}

void attention_portable(const struct attention_tile *tile)
{
    for (uint32_t r = 0; r < tile->rows; r++) {
        uint32_t next = tile->first_position + r + 1;
        uint32_t begin = tile->window > 0 && next > tile->window ? next - tile->window : 0;
        uint32_t end = tile->ends ? tile->ends[r] : next;
        for (uint32_t h = 0; h < tile->heads; h++) {
            const float *query = find_query(tile, r, h);
            const float *biases =
                tile->biases ? tile->biases + (r * tile->heads + h) * tile->bias_stride : NULL;
            float *out = tile->out + r * tile->out_stride + h * tile->head_dim;
            float maximum = tile->sinks ? tile->sinks[h] : -INFINITY;
            float sum = tile->sinks ? 1.0f : 0.0f;
            for (uint32_t d = 0; d < tile->head_dim; d++)
                out[d] = 0.0f;
            for (uint32_t p = begin; p < end;) {
                uint32_t stop = (p / ATTENTION_TILE + 1) * ATTENTION_TILE;
                stop = stop < end ? stop : end;
                visit_tile(tile, query, biases, p, stop, &maximum, &sum, out);
                p = stop;
            }
            for (uint32_t d = 0; d < tile->head_dim; d++)
                out[d] /= sum;
            if (tile->codec && tile->codec->value.rotated)
                kv_rotation_invert(&tile->codec->value.rotation, out);
        }
    }
}
