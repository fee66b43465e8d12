/*
 * The cache's geometry: worker/plan/kv_layout.h laid over the pools of the program.
 */
#include "worker/backend/cpu/program/cpu_kv_cache.h"

static struct kv_place place_in(const struct cpu_program *program, uint32_t layer, uint32_t group)
{
    const struct kv_layout *layout = &program->plan->kv;
    const struct kv_group *shape = &layout->groups[group];
    const struct kv_pool *pool = &program->kv[group];
    struct kv_place place = {.group = group,
                             .head_dim = shape->head_dim,
                             .latent = shape->latent,
                             .type = pool->type,
                             .codec = pool->codec};
    size_t sides = shape->latent ? 1 : 2;
    place.head_bytes = sides * KV_BLOCK_TOKENS * shape->head_dim * kv_cache_type_bytes(pool->type);
    if (pool->codec)
        place.head_bytes = pool->codec->key.bytes + pool->codec->value.bytes;
    place.memory = pool->memory + layout->layer_index[layer] * shape->kv_heads * place.head_bytes;
    place.block_bytes = pool->block_bytes;
    place.blocks = pool->blocks;
    return place;
}

struct kv_place cpu_kv_cache_place(const struct cpu_program *program, uint32_t layer)
{
    return place_in(program, layer, program->plan->kv.layer_group[layer]);
}

struct kv_place cpu_kv_cache_opening(const struct cpu_program *program, uint32_t layer,
                                     uint32_t *opening)
{
    const struct kv_layout *layout = &program->plan->kv;
    uint32_t group = kv_layout_opening(layout, layout->layer_group[layer]);
    *opening = group == KV_GROUP_NONE ? 0 : layout->groups[group].opening;
    return group == KV_GROUP_NONE ? (struct kv_place){0} : place_in(program, layer, group);
}
