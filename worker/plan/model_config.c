/*
 * Sizes of a layer. Most checkpoints state each size once, for the model; a layer that states its
 * own has it in its layer_config, where 0 means the model's size. So readers and families of models
 * with equal layers fill no per-layer sizes.
 */
#include "worker/plan/model_config.h"

#include "proto/must.h"

uint32_t model_config_head_dim(const struct model_config *config, uint32_t layer)
{
    uint32_t own = config->layer[layer].head_dim;
    return own ? own : config->head_dim;
}

uint32_t model_config_kv_heads(const struct model_config *config, uint32_t layer)
{
    uint32_t own = config->layer[layer].kv_heads;
    return own ? own : config->kv_heads;
}

uint32_t model_config_feed_forward(const struct model_config *config, uint32_t layer)
{
    uint32_t own = config->layer[layer].feed_forward;
    return own ? own : config->feed_forward;
}

uint32_t model_config_cache(const struct model_config *config, uint32_t layer)
{
    must(config->layer[layer].cache_back <= layer);
    return layer - config->layer[layer].cache_back;
}
