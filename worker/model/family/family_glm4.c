/*
 * GLM-4: the dense decoder with norms before and after each half, gate and up in one matrix, and
 * biases of q, k and v in some checkpoints. The config's rope states which part of each head
 * rotates.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the glm4 architecture, beyond the sizes that all families have: one rotary
 * embedding over the first part of each head, in adjacent pairs. Whether q, k and v have biases
 * follows from the tensors.
 *
 * The language part of GLM-4V has the same architecture name but rows permuted for
 * multi-dimensional positions; it is refused.
 *
 * Source: Hugging Face transformers, configuration_glm4.py and modeling_glm4.py.
 */
#define GLM4_ROPE_BASE 10000.0f

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "rope.dimension_sections", 0);
    config->attention_bias = gguf_file_find_tensor(keys->file, "blk.0.attn_q.bias") != NULL;
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, GLM4_ROPE_BASE, &config->ropes[0]);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = 0, .rope = 0};
}

static const struct gguf_form gguf_glm4 = {
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of GLM-4 (0414): half of each head rotates unless stated differently, in
 * adjacent pairs, and q, k and v have biases unless attention_bias is false.
 *
 * The names of the norms mislead: post_attention_layernorm is applied before the feed-forward, as
 * in llama; the norms after each half are post_self_attn_layernorm and post_mlp_layernorm.
 *
 * Source: transformers, configuration_glm4.py and modeling_glm4.py.
 */
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

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->attention_bias = checkpoint_keys_bool_or(keys, "attention_bias", true);
    checkpoint_hf_read_only_rope(keys, config, &rope_terms);
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = 0, .rope = 0};
}

static const struct hf_form hf_glm4 = {
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
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c,
                             &(const struct dense_form){.qkv_bias = c->attention_bias,
                                                        .joined_gate_up = true,
                                                        .post_norms = true});
}

const struct model_family family_glm4 = {
    .architecture = "glm4",
    .gguf = &gguf_glm4,
    .hf = &hf_glm4,
    .list_ops = list_ops,
};
