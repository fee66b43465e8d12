/*
 * What a GGUF of the architecture qwen3moe states beyond qwen3: how many experts there are and how
 * many are chosen. Their weights always add up to one, and every layer has experts; the format has
 * no keys for anything else.
 *
 * Source: llama.cpp, gguf-py/gguf/constants.py and src/llama-model.cpp.
 */
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/gguf/checkpoint_gguf.h"

static const char *const own_keys[] = {"expert_count", NULL};

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_gguf_qwen3.read_config(keys, config);
    config->experts = (struct expert_config){
        .count = checkpoint_keys_u32(keys, "expert_count", (struct u32_range){1, LIMIT_EXPERTS}),
        .chosen = checkpoint_keys_u32(keys, "expert_used_count",
                                      (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}),
        .feed_forward =
            checkpoint_keys_u32_or(keys, "expert_feed_forward_length",
                                   (struct u32_range){1, LIMIT_FEED_FORWARD}, config->feed_forward),
        .normalized = true,
    };
    checkpoint_settle_experts(keys, config);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].experts = true;
}

const struct gguf_form checkpoint_gguf_qwen3_moe = {
    .own_keys = own_keys,
    .read_config = read_config,
};
