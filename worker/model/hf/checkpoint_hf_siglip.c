/*
 * SigLIP's tower in Hugging Face checkpoints of Gemma 3, Idefics 3 and SmolVLM, and what CLIP's tower
 * shares with it. Settings of the projection that follows the tower are outside vision_config: mm_tokens_per_image, scale_factor.
 *
 * Source: transformers, configuration_siglip.py, configuration_gemma3.py, configuration_idefics3.py
 * and their modeling files.
 */
#include <math.h>

#include "worker/model/hf/checkpoint_hf_vision.h"

#define TOWER_EPSILON     1e-6f
#define SIGLIP_ACTIVATION "gelu_pytorch_tanh"
#define DEFAULT_WIDE      3072u
#define DEFAULT_IMAGE     224u
#define DEFAULT_TOKENS    256u
#define DEFAULT_FACTOR    2u

const struct tensor_name checkpoint_hf_clip_names[] = {
    {"v.patch_embd.weight", "^embeddings.patch_embedding.weight"},
    {"v.patch_embd.bias", "^embeddings.patch_embedding.bias"},
    {"v.class_embd", "^embeddings.class_embedding"},
    {"v.pre_ln.weight", "^pre_layrnorm.weight"},
    {"v.pre_ln.bias", "^pre_layrnorm.bias"},
    {"v.position_embd.weight", "^embeddings.position_embedding.weight"},
    {"v.blk.*.ln1.weight", "^encoder.layers.*.layer_norm1.weight"},
    {"v.blk.*.ln1.bias", "^encoder.layers.*.layer_norm1.bias"},
    {"v.blk.*.ln2.weight", "^encoder.layers.*.layer_norm2.weight"},
    {"v.blk.*.ln2.bias", "^encoder.layers.*.layer_norm2.bias"},
    {"v.blk.*.attn_q.weight", "^encoder.layers.*.self_attn.q_proj.weight"},
    {"v.blk.*.attn_q.bias", "^encoder.layers.*.self_attn.q_proj.bias"},
    {"v.blk.*.attn_k.weight", "^encoder.layers.*.self_attn.k_proj.weight"},
    {"v.blk.*.attn_k.bias", "^encoder.layers.*.self_attn.k_proj.bias"},
    {"v.blk.*.attn_v.weight", "^encoder.layers.*.self_attn.v_proj.weight"},
    {"v.blk.*.attn_v.bias", "^encoder.layers.*.self_attn.v_proj.bias"},
    {"v.blk.*.attn_out.weight", "^encoder.layers.*.self_attn.out_proj.weight"},
    {"v.blk.*.attn_out.bias", "^encoder.layers.*.self_attn.out_proj.bias"},
    {"v.blk.*.ffn_up.weight", "^encoder.layers.*.mlp.fc1.weight"},
    {"v.blk.*.ffn_up.bias", "^encoder.layers.*.mlp.fc1.bias"},
    {"v.blk.*.ffn_down.weight", "^encoder.layers.*.mlp.fc2.weight"},
    {"v.blk.*.ffn_down.bias", "^encoder.layers.*.mlp.fc2.bias"},
    {"v.post_ln.weight", "^post_layernorm.weight"},
    {"v.post_ln.bias", "^post_layernorm.bias"},
    {"v.head.probe", "^head.probe"},
    {"v.head.attention.in_proj_weight", "^head.attention.in_proj_weight"},
    {"v.head.attention.in_proj_bias", "^head.attention.in_proj_bias"},
    {"v.head.attention.out_proj.weight", "^head.attention.out_proj.weight"},
    {"v.head.attention.out_proj.bias", "^head.attention.out_proj.bias"},
    {"v.head.layernorm.weight", "^head.layernorm.weight"},
    {"v.head.layernorm.bias", "^head.layernorm.bias"},
    {"v.head.mlp.fc1.weight", "^head.mlp.fc1.weight"},
    {"v.head.mlp.fc1.bias", "^head.mlp.fc1.bias"},
    {"v.head.mlp.fc2.weight", "^head.mlp.fc2.weight"},
    {"v.head.mlp.fc2.bias", "^head.mlp.fc2.bias"},
    {NULL, NULL},
};
static const struct tensor_name names[] = {
    {"mm.norm.weight", "multi_modal_projector.mm_soft_emb_norm.weight"},
    {"mm.norm.weight", "model.multi_modal_projector.mm_soft_emb_norm.weight"},
    {"mm.weight", "multi_modal_projector.mm_input_projection_weight"},
    {"mm.weight", "model.multi_modal_projector.mm_input_projection_weight"},
    {"mm.weight", "model.connector.modality_projection.proj.weight"},
    {"mm.weight", "connector.modality_projection.proj.weight"},
    {NULL, NULL},
};

void checkpoint_hf_clip_sizes(struct checkpoint_keys *keys, struct vision_terms terms,
                              struct vision_config *config)
{
    terms.hidden_key = "hidden_size";
    terms.layers_key = "num_hidden_layers";
    terms.heads_key = "num_attention_heads";
    terms.norm_epsilon =
        checkpoint_keys_f32_or(keys, "layer_norm_eps", (struct f32_range){1e-12f, 1e-1f},
                               terms.norm_epsilon > 0 ? terms.norm_epsilon : TOWER_EPSILON);
    checkpoint_vision_sizes(keys, &terms, config);
    config->tower.feed_forward = checkpoint_keys_u32_or(
        keys, "intermediate_size", (struct u32_range){1, LIMIT_FEED_FORWARD}, DEFAULT_WIDE);
}

/* The tokens of an image form a square that divides the patches evenly. */
static void read_gemma3(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config)
{
    uint32_t tokens = checkpoint_keys_u32_or(
        root, "mm_tokens_per_image", (struct u32_range){1, LIMIT_PATCH_ROWS}, DEFAULT_TOKENS);
    checkpoint_keys_leave(keys, root);
    checkpoint_hf_clip_sizes(keys,
                             (struct vision_terms){.activation = SIGLIP_ACTIVATION,
                                                   .hidden = 768,
                                                   .layers = 12,
                                                   .heads = 12,
                                                   .patch_side = 16},
                             config);
    checkpoint_vision_square(keys, DEFAULT_IMAGE, config);
    uint32_t side = (uint32_t)lroundf(sqrtf((float)tokens));
    if (keys->result != RESULT_OK)
        return;
    if (side * side != tokens || config->vision.fixed_side % side != 0 ||
        config->vision.fixed_side / side > LIMIT_MERGE_SIDE)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "mm_tokens_per_image %u are no square of %u x %u patches", tokens,
                               config->vision.fixed_side, config->vision.fixed_side);
    config->vision.merge_side = config->vision.fixed_side / side;
    config->vision.spans_whole = true;
    config->pooled_norm_offset = 1.0f;
}

static void read_idefics3(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                          struct vision_config *config)
{
    uint32_t factor = checkpoint_keys_u32_or(
        root, "scale_factor", (struct u32_range){1, LIMIT_MERGE_SIDE}, DEFAULT_FACTOR);
    checkpoint_keys_leave(keys, root);
    checkpoint_hf_clip_sizes(keys,
                             (struct vision_terms){.activation = SIGLIP_ACTIVATION,
                                                   .hidden = 1152,
                                                   .layers = 12,
                                                   .heads = 16,
                                                   .patch_side = 32},
                             config);
    config->vision.merge_side = factor;
    checkpoint_vision_square(keys, DEFAULT_IMAGE, config);
}

static const char *const gemma3_prefixes[] = {"vision_tower.vision_model.",
                                              "model.vision_tower.vision_model.", "vision_tower.",
                                              "model.vision_tower.", NULL};
static const char *const gemma3_parts[] = {"vision_tower.", "multi_modal_projector.",
                                           "model.vision_tower.", "model.multi_modal_projector.",
                                           NULL};

const struct hf_vision_form checkpoint_hf_gemma3_tower = {
    .naming = {names, checkpoint_hf_clip_names, gemma3_prefixes, NULL},
    .probe = "v.patch_embd.weight",
    .parts = gemma3_parts,
    .read_config = read_gemma3,
};

static const char *const idefics3_prefixes[] = {"model.vision_model.", "vision_model.", NULL};
static const char *const idefics3_parts[] = {"model.vision_model.", "vision_model.",
                                             "model.connector.", "connector.", NULL};

const struct hf_vision_form checkpoint_hf_idefics3_tower = {
    .naming = {names, checkpoint_hf_clip_names, idefics3_prefixes, NULL},
    .probe = "v.patch_embd.weight",
    .parts = idefics3_parts,
    .read_config = read_idefics3,
};
