/*
 * Hugging Face checkpoints of Qwen 3.5, dense and with mixtures of experts: the text part of what
 * can also see, or the text model alone. Rotary positions have three dimensions, by which pairs
 * take turns (mrope_section). The tower is Qwen3-VL's.
 *
 * With experts every layer has them, and one more that every row uses; the chosen ones' weights
 * always add up to one, whatever norm_topk_prob says. They are stored as in qwen3_moe.
 *
 * MLX saves convolutions with channels before taps before a dimension of 1, and norm weights with
 * their 1 added; the former tells whether it was MLX, as it does in MLX's own loading.
 *
 * Source: mlx-lm, models/qwen3_5.py and qwen3_5_moe.py; transformers, configuration_qwen3_5.py,
 * modeling_qwen3_5.py and their siblings of qwen3_5_moe.
 *
 * Refuses to do: attention without its output gate. Leaves alone: the vision tower and the layers
 * that predict several tokens ("mtp.").
 */
#include <stdio.h>

#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_experts.h"
#include "worker/model/hf/checkpoint_hf_recurrent.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

#define QWEN3_5_ROPE_BASE 10000.0f
#define QWEN3_5_ROPE_PART 0.25f
#define DEFAULT_WIDE      512u /* of each expert */

static const char *const model_types[] = {"qwen3_5", "qwen3_5_text", NULL};
static const char *const own_keys[] = {"partial_rotary_factor", NULL};
static const char *const moe_model_types[] = {"qwen3_5_moe", "qwen3_5_moe_text", NULL};
static const char *const moe_own_keys[] = {"partial_rotary_factor", "num_experts", NULL};

static const struct tensor_name names[] = {
    {"blk.*.attn_qkv.weight", "^layers.*.linear_attn.in_proj_qkv.weight"},
    {"blk.*.attn_gate.weight", "^layers.*.linear_attn.in_proj_z.weight"},
    {"blk.*.ssm_beta.weight", "^layers.*.linear_attn.in_proj_b.weight"},
    {"blk.*.ssm_alpha.weight", "^layers.*.linear_attn.in_proj_a.weight"},
    {"blk.*.ssm_conv1d.weight", "^layers.*.linear_attn.conv1d.weight"},
    {"blk.*.ssm_a", "^layers.*.linear_attn.A_log"},
    {"blk.*.ssm_dt.bias", "^layers.*.linear_attn.dt_bias"},
    {"blk.*.ssm_norm.weight", "^layers.*.linear_attn.norm.weight"},
    {"blk.*.ssm_out.weight", "^layers.*.linear_attn.out_proj.weight"},
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.ffn_gate_inp_shexp.weight", "^layers.*.mlp.shared_expert_gate.weight"},
    {"blk.*.ffn_gate_shexp.weight", "^layers.*.mlp.shared_expert.gate_proj.weight"},
    {"blk.*.ffn_up_shexp.weight", "^layers.*.mlp.shared_expert.up_proj.weight"},
    {"blk.*.ffn_down_shexp.weight", "^layers.*.mlp.shared_expert.down_proj.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.language_model.", "language_model.model.", "model.",
                                       NULL};
static const char *const other_parts[] = {"model.visual.",       "visual.", "vision_tower.", "mtp.",
                                          "language_model.mtp.", NULL};

static void read_delta(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range heads = {1, LIMIT_HEADS}, dim = {1, LIMIT_HEAD_DIM};
    config->delta = (struct delta_config){
        .key_heads = checkpoint_keys_u32_or(keys, "linear_num_key_heads", heads, 16),
        .value_heads = checkpoint_keys_u32_or(keys, "linear_num_value_heads", heads, 32),
        .key_dim = checkpoint_keys_u32_or(keys, "linear_key_head_dim", dim, 128),
        .value_dim = checkpoint_keys_u32_or(keys, "linear_value_head_dim", dim, 128),
        .rate_is_log = true,
    };
    config->conv_taps = checkpoint_keys_u32_or(keys, "linear_conv_kernel_dim",
                                               (struct u32_range){2, LIMIT_CONV_TAPS}, 4);
    checkpoint_settle_delta(keys, config);
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct hf_rope_terms terms = {.base = QWEN3_5_ROPE_BASE,
                                        .partial = true,
                                        .part = QWEN3_5_ROPE_PART,
                                        .mrope = true,
                                        .interleaved = true,
                                        .sections = {11, 11, 10}};
    checkpoint_hf_read_only_rope(keys, config, &terms);
    checkpoint_keys_expect_neutral(keys, "attn_output_gate", 1);
    config->norm_weight_offset = 1.0f;
    read_delta(keys, config);
    checkpoint_hf_read_layer_kinds(keys, config,
                                   &(const struct hf_recurrent_layers){
                                       .word = "linear_attention",
                                       .kind = LAYER_GATED_DELTA,
                                       .period = "full_attention_interval",
                                       .default_period = 4,
                                   });
}

static void read_moe_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range wide = {1, LIMIT_FEED_FORWARD};
    read_config(keys, config);
    config->feed_forward =
        checkpoint_keys_u32_or(keys, "shared_expert_intermediate_size", wide, DEFAULT_WIDE);
    checkpoint_hf_read_experts(keys,
                               &(const struct hf_expert_terms){
                                   .least = 1,
                                   .count = 256,
                                   .chosen = 8,
                                   .feed_forward = DEFAULT_WIDE,
                                   .normalized = true,
                               },
                               config);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].experts = true;
}

/* Fastest first, a convolution's kernel is [taps, 1, channels]; MLX's is [1, taps, channels]. */
static void look_at_tensors(const struct tensor_table *tensors, const char *prefix,
                            struct model_config *config)
{
    uint32_t layer = 0;
    struct stored_name name;
    while (layer < config->layers && config->layer[layer].kind == LAYER_ATTENTION)
        layer++;
    snprintf(name.text, sizeof name.text, "%slayers.%u.linear_attn.conv1d.weight", prefix, layer);
    const struct checkpoint_tensor *taps = tensor_table_find(tensors, name.text);
    if (taps && taps->dimensions[0] == 1)
        config->norm_weight_offset = 0.0f;
}

const struct hf_form checkpoint_hf_qwen3_5 = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 12288,
                 .heads = 16,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .vocab_tokens = 248320,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, other_parts},
    .read_config = read_config,
    .look_at_tensors = look_at_tensors,
    .vision = &checkpoint_hf_qwen3_vl_tower,
};

const struct hf_form checkpoint_hf_qwen3_5_moe = {
    .model_types = moe_model_types,
    .defaults = {.layers = 40,
                 .hidden = 2048,
                 .feed_forward = DEFAULT_WIDE,
                 .heads = 16,
                 .kv_heads = 2,
                 .head_dim = 256,
                 .vocab_tokens = 248320,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = moe_own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, other_parts},
    .read_config = read_moe_config,
    .look_at_tensors = look_at_tensors,
    .vision = &checkpoint_hf_qwen3_vl_tower,
};
