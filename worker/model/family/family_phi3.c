/*
 * Phi-3, Phi-3.5 and Phi-4: llama with projections stored as one matrix.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the phi3 architecture, beyond the sizes that all families have: one rotary
 * embedding over the halves of a head or of its first part, longrope as two tensors of divisors,
 * and optionally a window over all layers.
 */
#define PHI3_ROPE_BASE 10000.0f

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, PHI3_ROPE_BASE, &config->ropes[0]);
    uint32_t window = checkpoint_gguf_window(keys, config, false);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = window};
}

static const struct gguf_form gguf_phi3 = {
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Phi-3, Phi-3.5 and Phi-4 (mini): joined projections, partly rotated
 * heads (Phi-4), longrope, and optionally a window over all layers.
 *
 * The class sets original_max_position_embeddings to 4096 if config.json leaves it out, so the
 * value inside rope_scaling is never used.
 *
 * Of Phi-4 multimodal (phi4mm as published, phi4_multimodal in transformers) only the text is read: its adapters
 * (lora_A, lora_B), which are for requests with images or sounds, and both towers are left out.
 *
 * Source: transformers, configuration_phi3.py and modeling_phi3.py.
 */
#define ROPE_BASE       10000.0f
#define ORIGINAL_TOKENS 4096u

static const char *const model_types[] = {"phi3", "phi4mm", "phi4_multimodal", NULL};
static const char *const own_keys[] = {"partial_rotary_factor", NULL};

static const struct tensor_name names[] = {
    {"blk.*.attn_qkv.weight", "^layers.*.self_attn.qkv_proj.weight"},
    {"blk.*.attn_qkv.weight", "^layers.*.self_attn.qkv_proj.base_layer.weight"},
    {"blk.*.attn_output.weight", "^layers.*.self_attn.o_proj.weight"},
    {"blk.*.attn_output.weight", "^layers.*.self_attn.o_proj.base_layer.weight"},
    {"blk.*.ffn_up.weight", "^layers.*.mlp.gate_up_proj.weight"},
    {"blk.*.ffn_up.weight", "^layers.*.mlp.gate_up_proj.base_layer.weight"},
    {"blk.*.ffn_down.weight", "^layers.*.mlp.down_proj.weight"},
    {"blk.*.ffn_down.weight", "^layers.*.mlp.down_proj.base_layer.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", NULL};
static const char *const other_parts[] = {"model.embed_tokens_extend.", NULL};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct hf_rope_terms terms = {
        .base = ROPE_BASE, .partial = true, .part = 1.0f, .original_tokens = ORIGINAL_TOKENS};
    checkpoint_hf_read_only_rope(keys, config, &terms);
    uint32_t window = checkpoint_hf_window(keys, config, 0);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = window};
}

static const struct hf_form hf_phi3 = {
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
    .naming = {names, checkpoint_hf_usual_names, prefixes, other_parts},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c, &(const struct dense_form){.joined_qkv = true, .joined_gate_up = true});
}

const struct model_family family_phi3 = {
    .architecture = "phi3",
    .gguf = &gguf_phi3,
    .hf = &hf_phi3,
    .list_ops = list_ops,
};
