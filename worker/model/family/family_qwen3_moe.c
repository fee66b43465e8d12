/*
 * Qwen3 with mixtures of experts: qwen3, with experts in place of the feed-forward part of some or
 * all layers. The weights are a softmax over all experts' scores; the chosen experts' shares are
 * used as they are or normalized to a sum of one (expert_config.normalized).
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_experts.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the architecture qwen3moe, beyond that of qwen3: the number of experts and how
 * many are chosen. The chosen experts' weights are normalized and every layer has experts; the
 * format has no keys for other variants.
 *
 * Source: llama.cpp, gguf-py/gguf/constants.py and src/llama-model.cpp.
 */
static const char *const gguf_own_keys[] = {"expert_count", NULL};

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
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

static void gguf_read_vl_config(struct checkpoint_keys *keys, struct model_config *config)
{
    gguf_read_config(keys, config);
    checkpoint_gguf_read_qwen3_vl(keys, config);
}

static const struct gguf_form gguf_qwen3_vl_moe = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_vl_config,
};

static const struct gguf_form gguf_qwen3_moe = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Qwen3's mixtures of experts: qwen3, with experts in some or all
 * layers (checkpoint_hf_experts.h).
 *
 * Experts are stored one by one (published checkpoints), as stacks with gate and up joined (the
 * form that transformers 5 keeps in memory), or as separate stacks (MLX).
 *
 * Source: transformers, configuration_qwen3_moe.py and modeling_qwen3_moe.py.
 */
#define ROPE_BASE      10000.0f
#define DEFAULT_WINDOW 4096u

static const char *const model_types[] = {"qwen3_moe", NULL};
static const char *const hf_own_keys[] = {"attention_bias", "num_experts", "num_local_experts",
                                          NULL};
static const char *const prefixes[] = {"model.", NULL};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
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
    checkpoint_hf_read_biases(keys, config);
    if (checkpoint_keys_bool_or(keys, "use_sliding_window", false))
        window = checkpoint_hf_window(keys, config, DEFAULT_WINDOW);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = window};
    checkpoint_hf_read_expert_layers(keys, config);
}

static const struct hf_form hf_qwen3_moe = {
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
    .own_keys = hf_own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c,
        &(const struct dense_form){.head_norms = true,
                                   .experts = {.gate = {.activation = GATE_SILU}}});
}

const struct model_family family_qwen3_moe = {
    .architecture = "qwen3moe",
    .gguf = &gguf_qwen3_moe,
    .hf = &hf_qwen3_moe,
    .list_ops = list_ops,
};

const struct model_family family_qwen3_vl_moe = {
    .architecture = "qwen3vlmoe",
    .gguf = &gguf_qwen3_vl_moe,
    .hf = &checkpoint_hf_qwen3_vl_moe,
    .list_ops = list_ops,
    .list_vision_ops = tower_qwen3_vl_list_ops,
};
