/*
 * The towers of GLM-4.1V, 4.5V and 4.6V (glm4v, glm4v_moe) and of GLM-OCR in Hugging Face checkpoints: Qwen's names for
 * the layers, and a merger after them that ends at the text's width. A table of positions has one size,
 * images have any.
 *
 * Source: transformers, configuration_glm4v.py, configuration_glm_ocr.py and their modeling files.
 */
#include "worker/model/hf/checkpoint_hf_qwen_tower.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

static const struct tensor_name tower_names[] = {
    {"v.norm_embd.weight", "^post_conv_layernorm.weight"},
    {"v.position_embd.weight", "^embeddings.position_embedding.weight"},
    {"v.blk.*.attn_q_norm.weight", "^blocks.*.attn.q_norm.weight"},
    {"v.blk.*.attn_k_norm.weight", "^blocks.*.attn.k_norm.weight"},
    {"v.blk.*.ffn_gate.bias", "^blocks.*.mlp.gate_proj.bias"},
    {"v.blk.*.ffn_up.bias", "^blocks.*.mlp.up_proj.bias"},
    {"v.blk.*.ffn_down.bias", "^blocks.*.mlp.down_proj.bias"},
    {"v.blk.*.ffn_gate.weight", "^blocks.*.mlp.gate_proj.weight"},
    {"v.blk.*.ffn_up.weight", "^blocks.*.mlp.up_proj.weight"},
    {"v.blk.*.ffn_down.weight", "^blocks.*.mlp.down_proj.weight"},
    {"v.post_ln.weight", "^post_layernorm.weight"},
    {"mm.patch_merger.weight", "^downsample.weight"},
    {"mm.patch_merger.bias", "^downsample.bias"},
    {"mm.model.fc.weight", "^merger.proj.weight"},
    {"mm.post_norm.weight", "^merger.post_projection_norm.weight"},
    {"mm.post_norm.bias", "^merger.post_projection_norm.bias"},
    {"mm.gate.weight", "^merger.gate_proj.weight"},
    {"mm.up.weight", "^merger.up_proj.weight"},
    {"mm.down.weight", "^merger.down_proj.weight"},
    {NULL, NULL},
};

/* The merger ends at the text's width. */
static uint32_t read_tower(struct checkpoint_keys *keys, const struct hf_qwen_tower_terms *terms,
                           uint32_t absent_out, bool biases, struct vision_config *config)
{
    checkpoint_hf_read_qwen_tower(keys, terms, config);
    config->tower.norm_epsilon =
        checkpoint_keys_f32_or(keys, "rms_norm_eps", (struct f32_range){1e-12f, 1e-1f}, 1e-5f);
    config->qkv_bias = checkpoint_keys_bool_or(keys, "attention_bias", biases);
    uint32_t out = checkpoint_keys_u32_or(keys, "out_hidden_size",
                                          (struct u32_range){1, LIMIT_HIDDEN}, absent_out);
    if (keys->result == RESULT_OK && out != config->vision.text_hidden)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "out_hidden_size %u is not the text's %u", out,
                               config->vision.text_hidden);
    return out;
}

/* The layers are as wide inside as a feature; the merger has the width that the config names. */
static void read_glm4v_tower(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                             struct vision_config *config)
{
    const struct hf_qwen_tower_terms terms = {.hidden_key = "hidden_size",
                                              .activation = "silu",
                                              .hidden = 1536,
                                              .layers = 24,
                                              .heads = 12,
                                              .patch_side = 14};
    (void)root;
    config->tower.feed_forward = read_tower(keys, &terms, 4096, false, config);
    config->projector_wide = checkpoint_keys_u32_or(
        keys, "intermediate_size", (struct u32_range){1, LIMIT_FEED_FORWARD}, 13696);
    checkpoint_vision_table(keys, "image_size", 336, config);
}

/* The other way round, and the merger is three features wide. */
static void read_glm_ocr_tower(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                               struct vision_config *config)
{
    const struct hf_qwen_tower_terms terms = {.hidden_key = "hidden_size",
                                              .activation = "silu",
                                              .hidden = 1024,
                                              .layers = 24,
                                              .patch_side = 14};
    (void)root;
    config->projector_wide = 3 * read_tower(keys, &terms, 1536, true, config);
    config->tower.feed_forward = checkpoint_keys_u32_or(
        keys, "intermediate_size", (struct u32_range){1, LIMIT_FEED_FORWARD}, 4096);
}

const struct hf_vision_form checkpoint_hf_glm4v_tower = {
    .naming = {tower_names, checkpoint_hf_qwen_tower_names, checkpoint_hf_qwen_towers, NULL},
    .probe = "v.patch_embd.weight",
    .parts = checkpoint_hf_qwen_towers,
    .read_config = read_glm4v_tower,
};

const struct hf_vision_form checkpoint_hf_glm_ocr_tower = {
    .naming = {tower_names, checkpoint_hf_qwen_tower_names, checkpoint_hf_qwen_towers, NULL},
    .probe = "v.patch_embd.weight",
    .parts = checkpoint_hf_qwen_towers,
    .read_config = read_glm_ocr_tower,
};
