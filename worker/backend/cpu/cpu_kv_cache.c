/*
 * kv_write, and the cache's geometry.
 *
 * Keys are stored transposed within a block, [head_dim][KV_BLOCK_TOKENS], because attention scores
 * sixteen positions in two registers, one dimension after the other. Values keep
 * [KV_BLOCK_TOKENS][head_dim]. Everything is f16, held to the finite range, so that nothing in a
 * pool (zeroed at first) is ever infinite or NaN.
 */
#include "worker/backend/cpu/cpu_kv_cache.h"

#include "proto/must.h"
#include "worker/backend/cpu/cpu_ops.h"

#define CHUNK 64u

struct kv_place cpu_kv_cache_place(const struct cpu_program *program, uint32_t layer)
{
    const struct kv_layout *layout = &program->plan->kv;
    uint32_t group = layout->layer_group[layer];
    const struct kv_group *shape = &layout->groups[group];
    const struct kv_pool *pool = &program->kv[group];
    struct kv_place place = {.group = group, .head_dim = shape->head_dim};
    place.head_elements = (size_t)2 * KV_BLOCK_TOKENS * shape->head_dim;
    place.elements =
        pool->elements + layout->layer_index[layer] * shape->kv_heads * place.head_elements;
    place.block_elements = pool->block_elements;
    place.blocks = pool->blocks;
    return place;
}

/* head [head_dim] f32; element d goes to out[d * KV_BLOCK_TOKENS] */
static void store_key(const struct cpu_kernels *kernels, const float *head, uint32_t head_dim,
                      uint16_t *out)
{
    uint16_t halves[CHUNK];
    for (uint32_t first = 0; first < head_dim; first += CHUNK) {
        uint32_t count = head_dim - first < CHUNK ? head_dim - first : CHUNK;
        kernels->to_f16(head + first, count, halves);
        for (uint32_t d = 0; d < count; d++)
            out[(size_t)(first + d) * KV_BLOCK_TOKENS] = halves[d];
    }
}

void cpu_kv_write(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct kv_write_params *params = &op->params.kv_write;
    const struct cpu_kernels *kernels = step->program->kernels;
    struct kv_place place = cpu_kv_cache_place(step->program, params->layer);
    struct row_share share = cpu_step_share(step, PLAN_ROWS_STEP, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const struct step_sequence *sequence = &step->batch->sequences[step->row_sequence[row]];
        uint32_t position = cpu_step_position(step, row);
        uint32_t slot = position % KV_BLOCK_TOKENS;
        uint32_t block = sequence->block_tables[place.group][position / KV_BLOCK_TOKENS];
        must(block < place.blocks);
        const float *values = cpu_step_row(step, op->inputs[0], row);
        uint16_t *out = place.elements + block * place.block_elements;
        for (uint32_t h = 0; h < params->keys.heads; h++, out += place.head_elements) {
            size_t column = (size_t)h * place.head_dim;
            store_key(kernels, values + params->keys.offset + column, place.head_dim, out + slot);
            kernels->to_f16(values + params->values.offset + column, place.head_dim,
                            out + (size_t)(KV_BLOCK_TOKENS + slot) * place.head_dim);
        }
    }
}
