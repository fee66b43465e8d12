/*
 * Hugging Face checkpoints of gpt-oss: experts as stacks of 4-bit floats with the rows of gate and
 * up taking turns (published checkpoints), or as stacks of each (MLX).
 *
 * Refuses to do: stacks in BF16 as transformers keeps them in memory, whose columns come before
 * their rows. Their shape gives them away.
 *
 * Source: transformers, configuration_gpt_oss.py and modeling_gpt_oss.py.
 */
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE       150000.0f
#define DEFAULT_WINDOW  128u
#define DEFAULT_EXPERTS 128u
#define DEFAULT_CHOSEN  4u
#define GATE_LIMIT      7.0f
#define GATE_ALPHA      1.702f

static const char *const model_types[] = {"gpt_oss", NULL};
static const char *const own_keys[] = {"attention_bias", "num_experts", "num_local_experts", NULL};
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
        .gate_limit = checkpoint_keys_f32_or(keys, "swiglu_limit", range, GATE_LIMIT),
        .gate_alpha = checkpoint_keys_f32_or(keys, "swiglu_alpha", range, GATE_ALPHA),
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

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "attention_bias", 1);
    if (json_value_type(json_value_member(keys->object, "rope_scaling")) == JSON_ABSENT &&
        json_value_type(json_value_member(keys->object, "rope_parameters")) == JSON_ABSENT)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key rope_scaling is missing");
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    read_experts(keys, config);
    read_layers(keys, config);
}

const struct hf_form checkpoint_hf_gpt_oss = {
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
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = read_config,
};
