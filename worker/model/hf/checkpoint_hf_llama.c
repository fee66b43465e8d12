/*
 * Hugging Face checkpoints of the llama architecture: one rotary embedding, over the halves of a
 * head (the rows of the projections are not permuted as GGUF's are).
 *
 * Source: transformers, configuration_llama.py and modeling_llama.py.
 */
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define LLAMA_ROPE_BASE 10000.0f

static const char *const model_types[] = {"llama", NULL};

const struct tensor_name checkpoint_hf_usual_names[] = {
    {"token_embd.weight", "^embed_tokens.weight"},
    {"output_norm.weight", "^norm.weight"},
    {"output.weight", "lm_head.weight"},
    {"output.weight", "language_model.lm_head.weight"},
    {"blk.*.attn_norm.weight", "^layers.*.input_layernorm.weight"},
    {"blk.*.attn_q.weight", "^layers.*.self_attn.q_proj.weight"},
    {"blk.*.attn_k.weight", "^layers.*.self_attn.k_proj.weight"},
    {"blk.*.attn_v.weight", "^layers.*.self_attn.v_proj.weight"},
    {"blk.*.attn_q.bias", "^layers.*.self_attn.q_proj.bias"},
    {"blk.*.attn_k.bias", "^layers.*.self_attn.k_proj.bias"},
    {"blk.*.attn_v.bias", "^layers.*.self_attn.v_proj.bias"},
    {"blk.*.attn_q_norm.weight", "^layers.*.self_attn.q_norm.weight"},
    {"blk.*.attn_k_norm.weight", "^layers.*.self_attn.k_norm.weight"},
    {"blk.*.attn_output.weight", "^layers.*.self_attn.o_proj.weight"},
    {"blk.*.ffn_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.ffn_gate.weight", "^layers.*.mlp.gate_proj.weight"},
    {"blk.*.ffn_up.weight", "^layers.*.mlp.up_proj.weight"},
    {"blk.*.ffn_down.weight", "^layers.*.mlp.down_proj.weight"},
    {"blk.*.ffn_gate_inp.weight", "^layers.*.mlp.gate.weight"},
    {"blk.*.ffn_gate.*.weight", "^layers.*.mlp.experts.*.gate_proj.weight"},
    {"blk.*.ffn_up.*.weight", "^layers.*.mlp.experts.*.up_proj.weight"},
    {"blk.*.ffn_down.*.weight", "^layers.*.mlp.experts.*.down_proj.weight"},
    {"blk.*.ffn_gate_up_exps.weight", "^layers.*.mlp.experts.gate_up_proj"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.mlp.experts.down_proj"},
    {"blk.*.ffn_gate_exps.weight", "^layers.*.mlp.switch_mlp.gate_proj.weight"},
    {"blk.*.ffn_up_exps.weight", "^layers.*.mlp.switch_mlp.up_proj.weight"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.mlp.switch_mlp.down_proj.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", NULL};

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config,
                                 &(const struct hf_rope_terms){.base = LLAMA_ROPE_BASE});
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = 0, .rope = 0};
}

const struct hf_form checkpoint_hf_llama = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 32000,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = read_config,
};
