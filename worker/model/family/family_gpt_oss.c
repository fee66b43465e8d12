/*
 * gpt-oss: llama with biases everywhere, a sink for each head in attention's softmax, a window in
 * every other layer, and in each layer experts with limited gates. The experts' weights are a
 * softmax over the chosen experts' scores.
 *
 * Source: transformers, modeling_gpt_oss.py.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_experts.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the architecture gpt-oss, beyond the sizes that all families have: yarn, a
 * window in every other layer beginning with the first, and the numbers of experts.
 *
 * Two facts cannot be stated in the format and are those of the published models: the limits of the
 * experts' gates, and that yarn's ramp ends are not rounded to whole dimensions (truncate is
 * false).
 *
 * Source: llama.cpp, gguf-py/gguf/constants.py and src/llama-model.cpp.
 */
#define GGUF_ROPE_BASE  150000.0f
#define GGUF_GATE_LIMIT 7.0f
#define GGUF_GATE_ALPHA 1.702f

static const char *const gguf_own_keys[] = {"expert_count", NULL};

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct rope_scaling scaling;
    checkpoint_gguf_read_scaling(keys, config, config->head_dim, GGUF_ROPE_BASE, &scaling);
    uint32_t window = checkpoint_gguf_window(keys, config, true);
    config->experts = (struct expert_config){
        .count = checkpoint_keys_u32(keys, "expert_count", (struct u32_range){1, LIMIT_EXPERTS}),
        .chosen = checkpoint_keys_u32(keys, "expert_used_count",
                                      (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}),
        .feed_forward =
            checkpoint_keys_u32_or(keys, "expert_feed_forward_length",
                                   (struct u32_range){1, LIMIT_FEED_FORWARD}, config->feed_forward),
        .gate_limit = GGUF_GATE_LIMIT,
        .gate_alpha = GGUF_GATE_ALPHA,
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

static const struct gguf_form gguf_gpt_oss = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of gpt-oss: experts as stacks of 4-bit floats in which rows of gate and
 * up alternate (published checkpoints), or as one stack each (MLX). Stacks of floats, as transformers
 * saves them, are transposed.
 *
 * Source: transformers, configuration_gpt_oss.py and modeling_gpt_oss.py.
 */
#define HF_ROPE_BASE    150000.0f
#define DEFAULT_WINDOW  128u
#define DEFAULT_EXPERTS 128u
#define DEFAULT_CHOSEN  4u
#define HF_GATE_LIMIT   7.0f
#define HF_GATE_ALPHA   1.702f

static const char *const model_types[] = {"gpt_oss", NULL};
static const char *const hf_own_keys[] = {"attention_bias", "num_experts", "num_local_experts",
                                          NULL};
static const struct tensor_name names[] = {
    {"blk.*.attn_output.bias", "^layers.*.self_attn.o_proj.bias"},
    {"blk.*.attn_sinks.weight", "^layers.*.self_attn.sinks"},
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.ffn_gate_inp.weight", "^layers.*.mlp.router.weight"},
    {"blk.*.ffn_gate_inp.bias", "^layers.*.mlp.router.bias"},
    {"blk.*.ffn_gate_up_exps.bias", "^layers.*.mlp.experts.gate_up_proj_bias"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.mlp.experts.down_proj"},
    {"blk.*.ffn_down_exps.bias", "^layers.*.mlp.experts.down_proj_bias"},
    {"blk.*.ffn_gate_exps.weight", "^layers.*.mlp.experts.gate_proj.weight"},
    {"blk.*.ffn_gate_exps.bias", "^layers.*.mlp.experts.gate_proj.bias"},
    {"blk.*.ffn_up_exps.weight", "^layers.*.mlp.experts.up_proj.weight"},
    {"blk.*.ffn_up_exps.bias", "^layers.*.mlp.experts.up_proj.bias"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.mlp.experts.down_proj.weight"},
    {"blk.*.ffn_down_exps.bias", "^layers.*.mlp.experts.down_proj.bias"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", NULL};

static void read_experts(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range counts = {1, LIMIT_EXPERTS};
    struct f32_range range = {1e-3f, 1e3f};
    uint32_t local = checkpoint_keys_u32_or(keys, "num_local_experts", counts, DEFAULT_EXPERTS);
    config->experts = (struct expert_config){
        .count = checkpoint_keys_u32_or(keys, "num_experts", counts, local),
        .chosen =
            checkpoint_keys_u32_or(keys, "num_experts_per_tok",
                                   (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}, DEFAULT_CHOSEN),
        .feed_forward = config->feed_forward,
        .gate_limit = checkpoint_keys_f32_or(keys, "swiglu_limit", range, HF_GATE_LIMIT),
        .gate_alpha = checkpoint_keys_f32_or(keys, "swiglu_alpha", range, HF_GATE_ALPHA),
    };
    checkpoint_settle_experts(keys, config);
}

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    bool slides[LIMIT_LAYERS] = {false};
    uint32_t window = checkpoint_hf_window(keys, config, DEFAULT_WINDOW);
    if (!checkpoint_hf_layer_slides(keys, config, slides))
        for (uint32_t layer = 0; layer < config->layers; layer += 2)
            slides[layer] = true;
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] =
            (struct layer_config){.window = slides[layer] ? window : 0, .experts = true};
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "attention_bias", 1);
    if (json_value_type(json_value_member(keys->object, "rope_scaling")) == JSON_ABSENT &&
        json_value_type(json_value_member(keys->object, "rope_parameters")) == JSON_ABSENT)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key rope_scaling is missing");
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = HF_ROPE_BASE});
    read_experts(keys, config);
    read_layers(keys, config);
}

static const struct hf_form hf_gpt_oss = {
    .model_types = model_types,
    .defaults = {.layers = 36,
                 .hidden = 2880,
                 .feed_forward = 2880,
                 .heads = 64,
                 .kv_heads = 8,
                 .head_dim = 64,
                 .vocab_tokens = 201088,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = hf_own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_config,
    .look_at_tensors = checkpoint_hf_look_at_stacks,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    const struct dense_form form = {
        .qkv_bias = true,
        .output_bias = true,
        .sinks = true,
        .feed_forward_norm = "post_attention_norm",
        .experts = {.biases = true,
                    .softmax_chosen = true,
                    .gate = {.activation = GATE_SILU,
                             .interleaved = true,
                             .limit = c->experts.gate_limit,
                             .alpha = c->experts.gate_alpha}},
    };
    return dense_blocks_list(b, c, &form);
}

const struct model_family family_gpt_oss = {
    .architecture = "gpt-oss",
    .gguf = &gguf_gpt_oss,
    .hf = &hf_gpt_oss,
    .list_ops = list_ops,
};
