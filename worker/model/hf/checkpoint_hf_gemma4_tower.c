/*
 * Gemma 4's tower in Hugging Face checkpoints. Sizes have the keys of a text model, pooling and
 * positions have keys of their own. Tensor names of layer matrices have one more component, because
 * each matrix may have clipping bounds beside it (use_clipped_linears).
 *
 * use_bidirectional_attention of the text config states whether the tokens of an image see the
 * whole image in layers with a window. Key heads shared by queries, and a head size other than
 * hidden / heads, are not supported.
 *
 * Source: transformers, configuration_gemma4.py and modeling_gemma4.py; mlx-vlm for names.
 */
#include "worker/model/hf/checkpoint_hf_vision.h"

#define AXIAL_BASE      100.0f
#define TOWER_EPSILON   1e-6f
#define DEFAULT_WIDE    3072u
#define DEFAULT_TABLE   10240u
#define DEFAULT_POOLING 3u

/* A matrix of a layer, and the bounds of its input and output. */
#define LAYER_MATRIX(asked, stored)                                                                \
    {"v.blk.*." asked ".weight", "^encoder.layers.*." stored ".linear.weight"},                    \
        {"v.blk.*." asked ".input_min", "^encoder.layers.*." stored ".input_min"},                 \
        {"v.blk.*." asked ".input_max", "^encoder.layers.*." stored ".input_max"},                 \
        {"v.blk.*." asked ".output_min", "^encoder.layers.*." stored ".output_min"},               \
    {                                                                                              \
        "v.blk.*." asked ".output_max", "^encoder.layers.*." stored ".output_max"                  \
    }

static const struct tensor_name names[] = {
    {"v.patch_embd.weight", "^patch_embedder.input_proj.weight"},
    {"v.position_embd.weight", "^patch_embedder.position_embedding_table"},
    {"v.blk.*.ln1.weight", "^encoder.layers.*.input_layernorm.weight"},
    {"v.blk.*.attn_post_norm.weight", "^encoder.layers.*.post_attention_layernorm.weight"},
    {"v.blk.*.ln2.weight", "^encoder.layers.*.pre_feedforward_layernorm.weight"},
    {"v.blk.*.ffn_post_norm.weight", "^encoder.layers.*.post_feedforward_layernorm.weight"},
    {"v.blk.*.attn_q_norm.weight", "^encoder.layers.*.self_attn.q_norm.weight"},
    {"v.blk.*.attn_k_norm.weight", "^encoder.layers.*.self_attn.k_norm.weight"},
    LAYER_MATRIX("attn_q", "self_attn.q_proj"),
    LAYER_MATRIX("attn_k", "self_attn.k_proj"),
    LAYER_MATRIX("attn_v", "self_attn.v_proj"),
    LAYER_MATRIX("attn_out", "self_attn.o_proj"),
    LAYER_MATRIX("ffn_gate", "mlp.gate_proj"),
    LAYER_MATRIX("ffn_up", "mlp.up_proj"),
    LAYER_MATRIX("ffn_down", "mlp.down_proj"),
    {"v.std_bias", "^std_bias"},
    {"v.std_scale", "^std_scale"},
    {"mm.weight", "model.embed_vision.embedding_projection.weight"},
    {"mm.weight", "embed_vision.embedding_projection.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.vision_tower.", "vision_tower.", NULL};
static const char *const parts[] = {"model.vision_tower.", "model.embed_vision.", "vision_tower.",
                                    "embed_vision.", NULL};

static void check_heads(struct checkpoint_keys *keys, const struct model_config *tower)
{
    uint32_t kv_heads = checkpoint_keys_u32_or(keys, "num_key_value_heads",
                                               (struct u32_range){1, LIMIT_HEADS}, tower->heads);
    uint32_t head_dim = checkpoint_keys_u32_or(
        keys, "head_dim", (struct u32_range){1, LIMIT_HEAD_DIM}, tower->head_dim);
    if (keys->result == RESULT_OK && (kv_heads != tower->heads || head_dim != tower->head_dim))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "%u key heads of %u, not %u of %u as the hidden size has it",
                               kv_heads, head_dim, tower->heads, tower->head_dim);
}

static bool sees_spans(struct checkpoint_keys *root)
{
    struct checkpoint_keys text = checkpoint_keys_enter(root, "text_config");
    struct gguf_string over = checkpoint_keys_string_or_empty(&text, "use_bidirectional_attention");
    checkpoint_keys_leave(root, &text);
    return checkpoint_keys_is(over, "vision");
}

static void read_config(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config)
{
    const struct vision_terms terms = {
        .hidden_key = "hidden_size",
        .layers_key = "num_hidden_layers",
        .heads_key = "num_attention_heads",
        .activation_key = "hidden_activation",
        .activation = "gelu_pytorch_tanh",
        .hidden = 768,
        .layers = 16,
        .heads = 12,
        .patch_side = 16,
        .norm_epsilon = checkpoint_keys_f32_or(keys, "rms_norm_eps",
                                               (struct f32_range){1e-12f, 1e-1f}, TOWER_EPSILON),
    };
    bool spans = sees_spans(root);
    checkpoint_keys_leave(keys, root);
    checkpoint_vision_sizes(keys, &terms, config);
    checkpoint_keys_expect_neutral(keys, "attention_bias", 0);
    check_heads(keys, &config->tower);
    checkpoint_vision_rope_halves(keys, AXIAL_BASE, config);
    config->tower.attention_scale = 1.0f;
    config->tower.feed_forward = checkpoint_keys_u32_or(
        keys, "intermediate_size", (struct u32_range){1, LIMIT_FEED_FORWARD}, DEFAULT_WIDE);
    config->vision.merge_side = checkpoint_keys_u32_or(
        keys, "pooling_kernel_size", (struct u32_range){1, LIMIT_MERGE_SIDE}, DEFAULT_POOLING);
    config->table_side =
        checkpoint_keys_u32_or(keys, "position_embedding_size",
                               (struct u32_range){1, LIMIT_PATCH_POSITIONS}, DEFAULT_TABLE);
    config->vision.max_side = config->table_side;
    config->vision.spans_whole = spans;
    config->clipped = checkpoint_keys_bool_or(keys, "use_clipped_linears", false);
    config->standardized = checkpoint_keys_bool_or(keys, "standardize", false);
}

const struct hf_vision_form checkpoint_hf_gemma4_tower = {
    .naming = {names, NULL, prefixes, NULL},
    .probe = "v.patch_embd.weight",
    .parts = parts,
    .read_config = read_config,
};
