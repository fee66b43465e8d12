/*
 * What a GGUF of the gemma4 architecture (text) states beyond the shared sizes.
 *
 * Layers are of two kinds, which a list tells apart: global ones, whose heads are key_length wide
 * and rotate in part (rope_freqs.weight keeps the other pairs still), and sliding ones with heads
 * of key_length_swa. The last layers share the keys of those before. Where a layer that stores keys
 * has no value matrix, its values are its keys before norm and rotation.
 *
 * Scores are not scaled: the norms of queries and keys have learned to.
 *
 * Source: llama.cpp's converter; Hugging Face transformers, modeling_gemma4.py.
 */
#include <math.h>
#include <stdio.h>

#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"

#define GLOBAL_ROPE_BASE 1000000.0f
#define LOCAL_ROPE_BASE  10000.0f

enum { GLOBAL_ROPE, LOCAL_ROPE };

static const char *const own_keys[] = {"final_logit_softcapping", "expert_count", NULL};

static uint32_t read_sliding_head_dim(struct checkpoint_keys *keys,
                                      const struct model_config *config)
{
    struct u32_range range = {2, LIMIT_HEAD_DIM};
    uint32_t dims =
        checkpoint_keys_u32_or(keys, "attention.key_length_swa", range, config->head_dim);
    uint32_t values = checkpoint_keys_u32_or(keys, "attention.value_length_swa", range, dims);
    if (keys->result == RESULT_OK && values != dims)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "attention.value_length_swa %u differs from key length %u", values,
                               dims);
    return dims;
}

static void read_ropes(struct checkpoint_keys *keys, struct model_config *config,
                       uint32_t sliding_head_dim)
{
    struct rope_config *global = &config->ropes[GLOBAL_ROPE], *local = &config->ropes[LOCAL_ROPE];
    config->rope_count = 2;
    global->pairing = local->pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, GLOBAL_ROPE_BASE, global);
    float base = checkpoint_keys_f32_or(keys, "rope.freq_base_swa", (struct f32_range){1.0f, 1e12f},
                                        LOCAL_ROPE_BASE);
    struct u32_range range = {2, sliding_head_dim};
    local->dims = checkpoint_keys_u32_or(keys, "rope.dimension_count_swa", range, sliding_head_dim);
    if (keys->result == RESULT_OK && local->dims % 2 != 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "rope.dimension_count_swa %u is not even",
                               local->dims);
    if (keys->result == RESULT_OK)
        checkpoint_plain_rope(local, base, 1.0f);
}

static bool lacks_values(const struct checkpoint_keys *keys, uint32_t layer)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%u.attn_v.weight", layer);
    return !gguf_file_find_tensor(keys->file, name);
}

static void read_layers(struct checkpoint_keys *keys, struct model_config *config,
                        uint32_t sliding_head_dim)
{
    uint32_t sliding[LIMIT_LAYERS];
    uint32_t window = checkpoint_gguf_window(keys, config, true);
    uint32_t shared = checkpoint_keys_u32_or(keys, "attention.shared_kv_layers",
                                             (struct u32_range){0, LIMIT_LAYERS}, 0);
    if (!checkpoint_keys_u32_each(keys, "attention.sliding_window_pattern",
                                  (struct u32_range){0, 1}, config->layers, sliding)) {
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "key gemma4.attention.sliding_window_pattern is missing");
        return;
    }
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        struct layer_config *l = &config->layer[layer];
        l->rope = sliding[layer] ? LOCAL_ROPE : GLOBAL_ROPE;
        l->window = sliding[layer] ? window : 0;
        l->head_dim = sliding[layer] ? sliding_head_dim : 0;
    }
    checkpoint_share_caches(keys, config, shared);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].values_are_keys =
            config->layer[layer].cache_back == 0 && lacks_values(keys, layer);
}

void checkpoint_gguf_read_per_layer(struct checkpoint_keys *keys, struct model_config *config)
{
    config->per_layer_columns = checkpoint_keys_u32_or(keys, "embedding_length_per_layer_input",
                                                       (struct u32_range){0, LIMIT_PLE_COLUMNS}, 0);
    if (config->per_layer_columns == 0 || keys->result != RESULT_OK)
        return;
    const struct gguf_tensor *table =
        gguf_file_find_tensor(keys->file, "per_layer_token_embd.weight");
    uint64_t rows = table ? table->dimensions[1] : 0;
    if (rows == 0 || rows > config->vocab_tokens)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "tensor per_layer_token_embd.weight: %llu tokens, not within 1 to "
                               "%u",
                               (unsigned long long)rows, config->vocab_tokens);
    config->per_layer_tokens = (uint32_t)rows;
}

static void read_experts(struct checkpoint_keys *keys, struct model_config *config)
{
    config->experts.count =
        checkpoint_keys_u32_or(keys, "expert_count", (struct u32_range){0, LIMIT_EXPERTS}, 0);
    if (config->experts.count == 0 || keys->result != RESULT_OK)
        return;
    config->experts.chosen =
        checkpoint_keys_u32(keys, "expert_used_count", (struct u32_range){1, LIMIT_EXPERTS_CHOSEN});
    config->experts.feed_forward = checkpoint_keys_u32(keys, "expert_feed_forward_length",
                                                       (struct u32_range){1, LIMIT_FEED_FORWARD});
    config->experts.normalized = true;
    checkpoint_settle_experts(keys, config);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].experts = true;
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t sliding_head_dim = read_sliding_head_dim(keys, config);
    config->embedding_scale = sqrtf((float)config->hidden);
    config->attention_scale = 1.0f;
    config->logit_soft_cap = checkpoint_keys_f32_or(keys, "final_logit_softcapping",
                                                    (struct f32_range){0.0f, 1e6f}, 0.0f);
    checkpoint_gguf_read_per_layer(keys, config);
    read_ropes(keys, config, sliding_head_dim);
    if (keys->result == RESULT_OK)
        read_layers(keys, config, sliding_head_dim);
    read_experts(keys, config);
}

const struct gguf_form checkpoint_gguf_gemma4 = {
    .own_keys = own_keys,
    .read_config = read_config,
};
