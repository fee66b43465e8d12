/*
 * Hugging Face checkpoints of Qwen3's mixtures of experts: qwen3 but for the layers that have
 * experts (checkpoint_hf_experts.h).
 *
 * Experts are stored one by one (published checkpoints), as stacks with gate and up in one (what
 * transformers 5 keeps in memory), or as stacks of each (MLX).
 *
 * Source: transformers, configuration_qwen3_moe.py and modeling_qwen3_moe.py.
 */
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_experts.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE      10000.0f
#define DEFAULT_WINDOW 4096u

static const char *const model_types[] = {"qwen3_moe", NULL};
static const char *const own_keys[] = {"num_experts", "num_local_experts", NULL};
static const char *const prefixes[] = {"model.", NULL};

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t window = 0;
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    checkpoint_hf_read_experts(
        keys,
        &(const struct hf_expert_terms){
            .count = 128,
            .chosen = 8,
            .feed_forward = 768,
            .normalized = checkpoint_keys_bool_or(keys, "norm_topk_prob", false),
        },
        config);
    if (checkpoint_keys_bool_or(keys, "use_sliding_window", false))
        window = checkpoint_hf_window(keys, config, DEFAULT_WINDOW);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = window};
    checkpoint_hf_read_expert_layers(keys, config);
}

const struct hf_form checkpoint_hf_qwen3_moe = {
    .model_types = model_types,
    .defaults = {.layers = 24,
                 .hidden = 2048,
                 .feed_forward = 6144,
                 .heads = 32,
                 .kv_heads = 4,
                 .vocab_tokens = 151936,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = read_config,
};
