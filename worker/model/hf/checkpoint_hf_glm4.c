/*
 * Hugging Face checkpoints of GLM-4 (0414): half of each head rotates unless stated otherwise, in
 * adjacent pairs, and q, k and v have biases unless attention_bias is false.
 *
 * The names of norms mislead: post_attention_layernorm stands before the feed-forward, as in llama;
 * those behind the halves are post_self_attn_layernorm and post_mlp_layernorm.
 *
 * Source: transformers, configuration_glm4.py and modeling_glm4.py.
 */
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

static const char *const model_types[] = {"glm4", NULL};
static const char *const own_keys[] = {"attention_bias", "partial_rotary_factor", NULL};
static const struct hf_rope_terms rope_terms = {.base = 10000.0f, .partial = true, .part = 0.5f};

static const struct tensor_name names[] = {
    {"blk.*.post_attention_norm.weight", "^layers.*.post_self_attn_layernorm.weight"},
    {"blk.*.ffn_up.weight", "^layers.*.mlp.gate_up_proj.weight"},
    {"blk.*.post_ffw_norm.weight", "^layers.*.post_mlp_layernorm.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", NULL};

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->attention_bias = checkpoint_keys_bool_or(keys, "attention_bias", true);
    checkpoint_hf_read_only_rope(keys, config, &rope_terms);
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = 0, .rope = 0};
}

const struct hf_form checkpoint_hf_glm4 = {
    .model_types = model_types,
    .defaults = {.layers = 40,
                 .hidden = 4096,
                 .feed_forward = 13696,
                 .heads = 32,
                 .kv_heads = 2,
                 .head_dim = 128,
                 .vocab_tokens = 151552,
                 .norm_epsilon = 1.5625e-7f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = read_config,
};
