/*
 * Phi-1, 1.5 and 2: both halves of a layer read the same layer-normed row, all matrices have
 * biases, that of the logits too, a part of each head rotates, and the feed-forward part has no
 * gate.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE 10000.0f

static void set_biases(struct model_config *config)
{
    config->attention_bias = true;
    config->output_bias = true;
    config->feed_forward_bias = true;
}

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the phi2 architecture, beyond the sizes that all families have: one rotary
 * embedding over the halves of the first part of each head. q, k and v are one tensor in some
 * files and three in others.
 */
static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    set_biases(config);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
}

static const struct gguf_form gguf_phi = {
    .epsilon_key = "attention.layer_norm_epsilon",
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Phi. Norms of queries and keys (qk_layernorm), which no published
 * model has, are refused.
 *
 * Source: transformers, configuration_phi.py and modeling_phi.py.
 */
static const char *const model_types[] = {"phi", NULL};
static const char *const own_keys[] = {"partial_rotary_factor", NULL};
static const char *const prefixes[] = {"model.", NULL};
static const struct hf_rope_terms rope_terms = {.base = ROPE_BASE, .partial = true, .part = 0.5f};

static const struct tensor_name names[] = {
    {"output_norm.weight", "^final_layernorm.weight"},
    {"output_norm.bias", "^final_layernorm.bias"},
    {"output.bias", "lm_head.bias"},
    {"blk.*.attn_norm.bias", "^layers.*.input_layernorm.bias"},
    {"blk.*.attn_output.weight", "^layers.*.self_attn.dense.weight"},
    {"blk.*.attn_output.bias", "^layers.*.self_attn.dense.bias"},
    {"blk.*.ffn_up.weight", "^layers.*.mlp.fc1.weight"},
    {"blk.*.ffn_up.bias", "^layers.*.mlp.fc1.bias"},
    {"blk.*.ffn_down.weight", "^layers.*.mlp.fc2.weight"},
    {"blk.*.ffn_down.bias", "^layers.*.mlp.fc2.bias"},
    {NULL, NULL},
};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "qk_layernorm", 0);
    set_biases(config);
    checkpoint_hf_read_only_rope(keys, config, &rope_terms);
}

static const struct hf_form hf_phi = {
    .model_types = model_types,
    .defaults = {.layers = 24,
                 .hidden = 2048,
                 .feed_forward = 8192,
                 .heads = 32,
                 .vocab_tokens = 51200,
                 .norm_epsilon = 1e-5f},
    .epsilon_key = "layer_norm_eps",
    .activation_key = "hidden_act",
    .activation = "gelu_new",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c,
        &(const struct dense_form){.layer_norms = true,
                                   .norm_biases = true,
                                   .parallel = true,
                                   .joined_qkv = plan_builder_has(b, "blk.0.attn_qkv.weight"),
                                   .logit_bias = true,
                                   .ungated = true,
                                   .activation_alone = ACTIVATION_GELU_TANH});
}

const struct model_family family_phi = {
    .architecture = "phi2",
    .gguf = &gguf_phi,
    .hf = &hf_phi,
    .list_ops = list_ops,
};
