/*
 * Hugging Face checkpoints of Phi-3, Phi-3.5 and Phi-4 (mini): projections joined, a part of a head
 * rotated (Phi-4), longrope, perhaps a window over all layers.
 *
 * The class always has original_max_position_embeddings, 4096 where config.json does not say it,
 * so that one inside rope_scaling never counts.
 *
 * Source: transformers, configuration_phi3.py and modeling_phi3.py.
 */
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE       10000.0f
#define ORIGINAL_TOKENS 4096u

static const char *const model_types[] = {"phi3", NULL};
static const char *const own_keys[] = {"partial_rotary_factor", NULL};

static const struct tensor_name names[] = {
    {"blk.*.attn_qkv.weight", "^layers.*.self_attn.qkv_proj.weight"},
    {"blk.*.ffn_up.weight", "^layers.*.mlp.gate_up_proj.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", NULL};

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct hf_rope_terms terms = {
        .base = ROPE_BASE, .partial = true, .part = 1.0f, .original_tokens = ORIGINAL_TOKENS};
    checkpoint_hf_read_only_rope(keys, config, &terms);
    uint32_t window = checkpoint_hf_window(keys, config, 0);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = window};
}

const struct hf_form checkpoint_hf_phi3 = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 3072,
                 .feed_forward = 8192,
                 .heads = 32,
                 .vocab_tokens = 32064,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = read_config,
};
