/*
 * What a GGUF of the architecture gpt-oss states beyond the shared sizes: yarn, a window that every
 * other layer has, from the first on, and the numbers of experts. The limits of their gate are not
 * stated.
 *
 * Yarn's ramp begins and ends between dimensions, as in the checkpoints that such files are made of
 * (truncate is false there); the format cannot say it.
 *
 * Source: llama.cpp, gguf-py/gguf/constants.py and src/llama-model.cpp.
 */
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"

#define ROPE_BASE  150000.0f
#define GATE_LIMIT 7.0f
#define GATE_ALPHA 1.702f

static const char *const own_keys[] = {"expert_count", NULL};

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct rope_scaling scaling;
    checkpoint_gguf_read_scaling(keys, config, config->head_dim, ROPE_BASE, &scaling);
    uint32_t window = checkpoint_gguf_window(keys, config, true);
    config->experts = (struct expert_config){
        .count = checkpoint_keys_u32(keys, "expert_count", (struct u32_range){1, LIMIT_EXPERTS}),
        .chosen = checkpoint_keys_u32(keys, "expert_used_count",
                                      (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}),
        .feed_forward =
            checkpoint_keys_u32_or(keys, "expert_feed_forward_length",
                                   (struct u32_range){1, LIMIT_FEED_FORWARD}, config->feed_forward),
        .gate_limit = GATE_LIMIT,
        .gate_alpha = GATE_ALPHA,
    };
    checkpoint_settle_experts(keys, config);
    if (keys->result != RESULT_OK)
        return;
    scaling.fractional_bounds = true;
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    rope_scaling_apply(&scaling, &config->ropes[0]);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] =
            (struct layer_config){.window = layer % 2 == 0 ? window : 0, .experts = true};
}

const struct gguf_form checkpoint_gguf_gpt_oss = {
    .own_keys = own_keys,
    .read_config = read_config,
};
