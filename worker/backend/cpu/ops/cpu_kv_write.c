/*
 * kv_write: a row's keys and values into the cache.
 *
 * Keys are stored transposed within a block, [head_dim][KV_BLOCK_TOKENS], because attention scores
 * sixteen positions in two registers, one dimension after the other. Values are stored as
 * [KV_BLOCK_TOKENS][head_dim]. Values outside the finite range of the type are clamped, so a pool
 * (zeroed at first) never contains an infinity or a NaN: attention multiplies positions that a
 * query does not see by 0, and the product must be 0.
 *
 * Quantized groups store one row per position, for keys and for values: the bits of two positions
 * must not share a byte, because threads write different rows of a step. A position before
 * --quantized-kv-start is also written in full precision (worker/plan/kv_layout.h). Latent groups, which
 * are not quantized, store keys only.
 */
#include <float.h>

#include "proto/must.h"
#include "worker/backend/cpu/ops/cpu_ops.h"
#include "worker/backend/cpu/program/cpu_kv_cache.h"

#define CHUNK 64u

/* A position of one head: key and value [head_dim], f32, go to slot `slot` of the head's block. `value`
 * is NULL if the layer is latent. */
static void store_f16(const struct cpu_kernels *kernels, const float *key, const float *value,
                      uint32_t head_dim, uint32_t slot, uint16_t *block)
{
    uint16_t halves[CHUNK];
    for (uint32_t first = 0; first < head_dim; first += CHUNK) {
        uint32_t count = head_dim - first < CHUNK ? head_dim - first : CHUNK;
        kernels->to_f16(key + first, count, halves);
        for (uint32_t d = 0; d < count; d++)
            block[(size_t)(first + d) * KV_BLOCK_TOKENS + slot] = halves[d];
    }
    if (value)
        kernels->to_f16(value, head_dim, block + (size_t)(KV_BLOCK_TOKENS + slot) * head_dim);
}

static void store_codes(const struct kv_codec *codec, const float *key, const float *value,
                        uint32_t slot, uint8_t *block)
{
    kv_codec_encode(&codec->key, key, slot, block);
    kv_codec_encode(&codec->value, value, slot, block + codec->key.bytes);
}

/* The comparison also turns a NaN into a number in range. */
static float finite(float x)
{
    float value = x < FLT_MAX ? x : FLT_MAX;
    return value > -FLT_MAX ? value : -FLT_MAX;
}

static void store_f32(const float *key, const float *value, uint32_t head_dim, uint32_t slot,
                      float *block)
{
    float *values = block + (size_t)(KV_BLOCK_TOKENS + slot) * head_dim;
    for (uint32_t d = 0; d < head_dim; d++) {
        block[(size_t)d * KV_BLOCK_TOKENS + slot] = finite(key[d]);
        if (value)
            values[d] = finite(value[d]);
    }
}

/* All heads of one row. */
static void write_row(const struct cpu_step *step, const struct plan_op *op,
                      const struct kv_place *place, uint32_t row)
{
    const struct kv_write_params *params = &op->params.kv_write;
    const struct step_sequence *sequence = &step->batch->sequences[step->row_sequence[row]];
    uint32_t position = cpu_step_position(step, row);
    uint32_t slot = position % KV_BLOCK_TOKENS;
    uint32_t block = sequence->block_tables[place->group][position / KV_BLOCK_TOKENS];
    must(block < place->blocks);
    const float *row_values = cpu_step_row(step, op->inputs[0], row);
    uint8_t *out = place->memory + block * place->block_bytes;
    for (uint32_t h = 0; h < params->keys.heads; h++, out += place->head_bytes) {
        const float *key = row_values + params->keys.offset + (size_t)h * place->head_dim;
        const float *value = row_values + params->values.offset + (size_t)h * place->head_dim;
        value = place->latent ? NULL : value;
        if (place->codec)
            store_codes(place->codec, key, value, slot, out);
        else if (place->type == KV_CACHE_F32)
            store_f32(key, value, place->head_dim, slot, (float *)(void *)out);
        else
            store_f16(step->program->kernels, key, value, place->head_dim, slot,
                      (uint16_t *)(void *)out);
    }
}

void cpu_kv_write(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    uint32_t layer = op->params.kv_write.layer;
    uint32_t opening;
    struct kv_place place = cpu_kv_cache_place(step->program, layer);
    struct kv_place first_place = cpu_kv_cache_opening(step->program, layer, &opening);
    struct row_share share = cpu_step_share(step, PLAN_ROWS_STEP, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        write_row(step, op, &place, row);
        if (cpu_step_position(step, row) < opening)
            write_row(step, op, &first_place, row);
    }
}
