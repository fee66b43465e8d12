/*
 * What a GGUF of the mistral3 architecture (Ministral 3, and Mistral Small 3.1 and later) states
 * beyond the shared sizes: one rotary embedding over pairs, because rows are permuted as llama's
 * are, and how queries grow with their position (attention.temperature_scale, per original
 * context).
 */
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"

#define MISTRAL3_ROPE_BASE 10000.0f

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range tokens = {2, LIMIT_CONTEXT_TOKENS};
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, MISTRAL3_ROPE_BASE, &config->ropes[0]);
    config->position_scale_beta = checkpoint_keys_f32_or(keys, "attention.temperature_scale",
                                                         (struct f32_range){0.0f, 1e3f}, 0.0f);
    uint32_t original = checkpoint_keys_u32_or(keys, "rope.scaling.original_context_length", tokens,
                                               config->context_tokens);
    uint32_t period =
        checkpoint_keys_u32_or(keys, "attention.temperature_length", tokens, original);
    config->position_scale_tokens = config->position_scale_beta > 0.0f ? period : 0;
    uint32_t window = checkpoint_gguf_window(keys, config, false);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = window};
}

const struct gguf_form checkpoint_gguf_ministral3 = {
    .read_config = read_config,
};
