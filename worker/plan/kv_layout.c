/*
 * Grouping layers into paged caches, and the arithmetic of blocks.
 *
 * Layers with the same window need the same positions, so they share block ids: one block of a
 * group is KV_BLOCK_TOKENS positions of all its layers. A model of full and sliding layers has two
 * block tables per sequence, however many layers it has, and a long prompt takes only a window's
 * blocks of the sliding group. All layers of a group have the same key and value shape; layers of
 * another shape form another group.
 *
 * A layer that attends over an earlier layer's keys uses that layer's place and takes no memory.
 *
 * A model without attention has one FULL group whose blocks nothing reads: block tables, the prefix
 * cache and preemption count positions in blocks whatever the layers keep.
 *
 * At most KV_GROUPS_MAX different windows and shapes are supported. Blocks are taken and given back
 * by the block pool (worker/cache/kv_block_pool.h), not here.
 */
#include "worker/plan/kv_layout.h"

#include <string.h>

#include "proto/must.h"
#include "worker/plan/kv_codec.h"
#include "worker/plan/model_config.h"

/* Of the group of a model without attention, 2 KB a block in f16: it bounds the number of blocks. */
#define UNUSED_HEAD_DIM 32u

static bool stores_keys(const struct model_config *config, uint32_t layer)
{
    return layer_kind_attends(config->layer[layer].kind) &&
           model_config_cache(config, layer) == layer;
}

/* The last layer with keys of its own if there are more than two such layers, else no layer. */
static uint32_t find_kept_layer(const struct model_config *config)
{
    uint32_t count = 0;
    uint32_t last = config->layers;
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        if (!stores_keys(config, layer))
            continue;
        count++;
        last = layer;
    }
    return count > 2 ? last : config->layers;
}

static struct kv_group group_of_layer(const struct kv_layout *layout,
                                      const struct model_config *config, uint32_t layer)
{
    uint32_t window = config->layer[layer].window;
    return (struct kv_group){
        .kind = window == 0 ? KV_FULL : KV_SLIDING,
        .window = window,
        .kv_heads = model_config_kv_heads(config, layer),
        .head_dim = model_config_head_dim(config, layer),
        .latent = config->layer[layer].latent,
        .quantized = layout->quantization.scheme != KV_QUANT_NONE && window == 0 &&
                     !config->layer[layer].latent &&
                     model_config_cache(config, layer) != find_kept_layer(config),
    };
}

static uint32_t find_group(const struct kv_layout *layout, const struct kv_group *wanted)
{
    for (uint32_t g = 0; g < layout->group_count; g++)
        if (layout->groups[g].window == wanted->window &&
            layout->groups[g].kv_heads == wanted->kv_heads &&
            layout->groups[g].quantized == wanted->quantized &&
            layout->groups[g].latent == wanted->latent &&
            layout->groups[g].head_dim == wanted->head_dim)
            return g;
    return layout->group_count;
}

/* The FULL group comes first, whichever layer is the first. */
static void add_first_full(struct kv_layout *layout, const struct model_config *config)
{
    uint32_t layer = 0;
    while (layer < config->layers &&
           (!layer_kind_attends(config->layer[layer].kind) || config->layer[layer].window != 0))
        layer++;
    if (layer < config->layers)
        layout->groups[layout->group_count++] = group_of_layer(layout, config, layer);
}

static void share_place(struct kv_layout *layout, const struct model_config *config, uint32_t layer)
{
    uint32_t source = model_config_cache(config, layer);
    const struct kv_group own = group_of_layer(layout, config, layer);
    must(model_config_cache(config, source) == source);
    must(find_group(layout, &own) == layout->layer_group[source]);
    layout->layer_group[layer] = layout->layer_group[source];
    layout->layer_index[layer] = layout->layer_index[source];
}

/* A layout that is empty but for its quantization. */
static enum result group_layers(struct kv_layout *layout, const struct model_config *config,
                                struct error_text *error)
{
    layout->layer_count = config->layers;
    add_first_full(layout, config);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        layout->layer_group[layer] = KV_GROUP_NONE;
        if (!layer_kind_attends(config->layer[layer].kind))
            continue;
        if (model_config_cache(config, layer) != layer) {
            share_place(layout, config, layer);
            continue;
        }
        const struct kv_group wanted = group_of_layer(layout, config, layer);
        uint32_t group = find_group(layout, &wanted);
        if (group == KV_GROUPS_MAX)
            return error_set(error, RESULT_UNSUPPORTED,
                             "layer %u: more than %u different attention windows and head shapes",
                             layer, KV_GROUPS_MAX);
        if (group == layout->group_count)
            layout->groups[layout->group_count++] = wanted;
        layout->layer_group[layer] = (uint8_t)group;
        layout->layer_index[layer] = (uint16_t)layout->groups[group].layers++;
    }
    if (layout->group_count == 0)
        layout->groups[layout->group_count++] = (struct kv_group){
            .kind = KV_FULL, .layers = 1, .kv_heads = 1, .head_dim = UNUSED_HEAD_DIM};
    return RESULT_OK;
}

enum result kv_layout_init(struct kv_layout *layout, const struct model_config *config,
                           struct error_text *error)
{
    memset(layout, 0, sizeof(*layout));
    return group_layers(layout, config, error);
}

/* Adds an OPENING group for each quantized group: its layers in full precision. */
static enum result add_openings(struct kv_layout *layout, struct error_text *error)
{
    const uint32_t start = layout->quantization.start_tokens;
    const uint32_t count = layout->group_count;
    for (uint32_t group = 0; group < count && start > 0; group++) {
        if (!layout->groups[group].quantized)
            continue;
        if (layout->group_count == KV_GROUPS_MAX)
            return error_set(error, RESULT_UNSUPPORTED,
                             "--quantized-kv-start %u: the model's windows and head shapes and "
                             "what lies before the start make more than %u groups of layers",
                             start, KV_GROUPS_MAX);
        struct kv_group *opening = &layout->groups[layout->group_count++];
        *opening = layout->groups[group];
        opening->kind = KV_OPENING;
        opening->quantized = false;
        opening->opening = start;
        opening->opening_of = group;
    }
    return RESULT_OK;
}

enum result kv_layout_quantize(struct kv_layout *layout, const struct model_config *config,
                               const struct kv_quantization *quantization, struct error_text *error)
{
    if (quantization->scheme == KV_QUANT_NONE)
        return RESULT_OK;
    memset(layout, 0, sizeof(*layout));
    layout->quantization = *quantization;
    enum result result = group_layers(layout, config, error);
    uint32_t quantized = 0;
    for (uint32_t group = 0; group < layout->group_count && result == RESULT_OK; group++) {
        if (!layout->groups[group].quantized)
            continue;
        quantized++;
        result = kv_codec_check(quantization, layout->groups[group].head_dim, error);
    }
    if (result == RESULT_OK && quantized == 0)
        return error_set(error, RESULT_UNSUPPORTED,
                         "--kv-bits: the model has no layer whose keys and values are quantized "
                         "(sliding and latent layers and the last one are not)");
    return result == RESULT_OK ? add_openings(layout, error) : result;
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
    if (g->quantized)
        return (uint64_t)g->layers * g->kv_heads *
               kv_codec_head_bytes(&layout->quantization, g->head_dim);
    /* At most 2 * 16 * 2^9 layers * 2^10 heads * 2^9 dimensions * bytes: far inside 64 bits. */
    uint64_t sides = g->latent ? 1 : 2;
    return sides * KV_BLOCK_TOKENS * g->layers * g->kv_heads * g->head_dim * element_bytes;
}

static uint32_t blocks_of(uint64_t tokens)
{
    return (uint32_t)((tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS);
}

uint32_t kv_layout_opening(const struct kv_layout *layout, uint32_t group)
{
    for (uint32_t g = 0; g < layout->group_count; g++)
        if (layout->groups[g].kind == KV_OPENING && layout->groups[g].opening_of == group)
            return g;
    return KV_GROUP_NONE;
}

uint32_t kv_layout_covered_tokens(const struct kv_layout *layout, uint32_t group, uint32_t tokens)
{
    const struct kv_group *g = group_at(layout, group);
    return g->kind == KV_OPENING && tokens > g->opening ? g->opening : tokens;
}

uint32_t kv_layout_blocks_needed(const struct kv_layout *layout, uint32_t group, uint32_t tokens,
                                 uint32_t step_tokens)
{
    const struct kv_group *g = group_at(layout, group);
    uint32_t all = blocks_of(kv_layout_covered_tokens(layout, group, tokens));
    if (g->kind != KV_SLIDING || step_tokens == 0)
        return all;
    /* A step of s rows sees the s rows and window - 1 positions before the first, and as many
     * before the position at which the sequence could resume are kept. A run of n positions that may
     * begin anywhere in a block touches one block more than n - 1 fill. */
    uint64_t seen =
        (uint64_t)g->window - 1 + step_tokens + KV_BLOCK_TOKENS - 1 + KV_UNRECORDED_TOKENS;
    uint32_t touched = blocks_of(seen - 1) + 1;
    return touched < all ? touched : all;
}

uint32_t kv_layout_first_block(const struct kv_layout *layout, uint32_t group, uint32_t position)
{
    const struct kv_group *g = group_at(layout, group);
    if (g->kind == KV_OPENING)
        return position < g->opening ? 0 : blocks_of(g->opening);
    if (g->kind == KV_FULL || position < g->window)
        return 0;
    return (position - g->window + 1) / KV_BLOCK_TOKENS;
}

uint32_t kv_layout_first_kept(const struct kv_layout *layout, uint32_t group, uint32_t computed)
{
    uint32_t recorded = computed > KV_UNRECORDED_TOKENS ? computed - KV_UNRECORDED_TOKENS : 0;
    return kv_layout_first_block(layout, group, recorded / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS);
}
