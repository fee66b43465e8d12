/*
 * Grouping layers into paged caches, and the arithmetic of blocks.
 *
 * Layers that look equally far back forget together, so they share block ids: one block of a group
 * is KV_BLOCK_TOKENS positions of all its layers. A model of full and sliding layers thus has two
 * block tables per sequence, however many layers it has, and a long prompt costs the sliding group
 * only its window.
 *
 * Within one checkpoint every layer has the same key and value shape (struct model_config), so the
 * window alone tells groups apart.
 *
 * Refuses: checkpoints with more different windows than KV_GROUPS_MAX. Takes and gives no block;
 * that is the block pool's work.
 */
#include "worker/cache/kv_layout.h"

#include <string.h>

#include "proto/must.h"
#include "worker/model/model_config.h"

static uint32_t group_of_window(const struct kv_layout *layout, uint32_t window)
{
    uint32_t group = 0;
    while (group < layout->group_count && layout->groups[group].window != window)
        group++;
    return group;
}

static void add_group(struct kv_layout *layout, const struct model_config *config, uint32_t window)
{
    layout->groups[layout->group_count++] = (struct kv_group){
        .kind = window == 0 ? KV_FULL : KV_SLIDING,
        .window = window,
        .kv_heads = config->kv_heads,
        .head_dim = config->head_dim,
    };
}

static bool any_full_layer(const struct model_config *config)
{
    for (uint32_t layer = 0; layer < config->layers; layer++)
        if (config->layer[layer].kind == LAYER_ATTENTION && config->layer[layer].window == 0)
            return true;
    return false;
}

enum result kv_layout_init(struct kv_layout *layout, const struct model_config *config,
                           struct error_text *error)
{
    memset(layout, 0, sizeof(*layout));
    layout->layer_count = config->layers;
    if (any_full_layer(config))
        add_group(layout, config, 0);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        uint32_t window = config->layer[layer].window;
        uint32_t group = group_of_window(layout, window);
        layout->layer_group[layer] = KV_GROUP_NONE;
        if (config->layer[layer].kind != LAYER_ATTENTION)
            continue;
        if (group == KV_GROUPS_MAX)
            return error_set(error, RESULT_UNSUPPORTED,
                             "layer %u: more than %u different attention windows", layer,
                             KV_GROUPS_MAX);
        if (group == layout->group_count)
            add_group(layout, config, window);
        layout->layer_group[layer] = (uint8_t)group;
        layout->layer_index[layer] = (uint16_t)layout->groups[group].layers++;
    }
    if (layout->group_count == 0)
        return error_set(error, RESULT_UNSUPPORTED, "no layer of the model attends");
    return RESULT_OK;
}

static const struct kv_group *group_at(const struct kv_layout *layout, uint32_t group)
{
    must(group < layout->group_count);
    return &layout->groups[group];
}

uint64_t kv_layout_block_bytes(const struct kv_layout *layout, uint32_t group,
                               uint32_t element_bytes)
{
    const struct kv_group *g = group_at(layout, group);
    /* At most 2 * 16 * 2^9 layers * 2^10 heads * 2^9 dimensions * bytes: far inside 64 bits. */
    return (uint64_t)2 * KV_BLOCK_TOKENS * g->layers * g->kv_heads * g->head_dim * element_bytes;
}

static uint32_t blocks_of(uint64_t tokens)
{
    return (uint32_t)((tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS);
}

uint32_t kv_layout_blocks_needed(const struct kv_layout *layout, uint32_t group, uint32_t tokens,
                                 uint32_t step_tokens)
{
    const struct kv_group *g = group_at(layout, group);
    uint32_t all = blocks_of(tokens);
    if (g->kind == KV_FULL || step_tokens == 0)
        return all;
    /* A step of s rows sees the s rows and window - 1 positions before the first. A run of n
     * positions that may begin anywhere in a block touches one block more than n - 1 fill. */
    uint64_t seen = (uint64_t)g->window - 1 + step_tokens;
    uint32_t touched = blocks_of(seen - 1) + 1;
    return touched < all ? touched : all;
}

uint32_t kv_layout_first_block(const struct kv_layout *layout, uint32_t group, uint32_t position)
{
    const struct kv_group *g = group_at(layout, group);
    if (g->kind == KV_FULL || position < g->window)
        return 0;
    return (position - g->window + 1) / KV_BLOCK_TOKENS;
}
