/*
 * InternVL 2.5, 3 and 3.5: InternViT over squares of one size, beside any text family. A class row
 * attends and is dropped; each half of a layer is multiplied by learned factors before it is added;
 * queries and keys may have a norm over all heads together. Squares of patches are joined:
 *
 *   feature = W3 . gelu(W1 . layer_norm(join(x)) + bias) + bias
 *
 * Folders of transformers ("internvl") and of the publisher ("internvl_chat") have other names and
 * keys; the latter store q, k and v as one matrix.
 *
 * Stages: those of the layers, and the features.
 *
 * Source: transformers, configuration_internvl.py, modeling_internvl.py; the publisher's
 * configuration_intern_vit.py and modeling_intern_vit.py for keys and names.
 */
#include <math.h>

#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

#define EPSILON        1e-6f
#define JOINED_EPSILON 1e-5f
#define DEFAULT_PIXELS 448u
#define DEFAULT_RATIO  0.5f

static const char *const model_types[] = {"internvl", "internvl_chat", NULL};
static const char *const vision_types[] = {"internvl_vision", "intern_vit_6b", NULL};

static const struct tensor_name names[] = {
    {"v.patch_embd.weight", "^embeddings.patch_embeddings.projection.weight"},
    {"v.patch_embd.weight", "^embeddings.patch_embedding.weight"},
    {"v.patch_embd.bias", "^embeddings.patch_embeddings.projection.bias"},
    {"v.patch_embd.bias", "^embeddings.patch_embedding.bias"},
    {"v.class_embd", "^embeddings.cls_token"},
    {"v.class_embd", "^embeddings.class_embedding"},
    {"v.position_embd.weight", "^embeddings.position_embeddings"},
    {"v.position_embd.weight", "^embeddings.position_embedding"},
    {"v.blk.*.ln1.weight", "^encoder.layer.*.layernorm_before.weight"},
    {"v.blk.*.ln1.weight", "^encoder.layers.*.norm1.weight"},
    {"v.blk.*.ln1.bias", "^encoder.layer.*.layernorm_before.bias"},
    {"v.blk.*.ln1.bias", "^encoder.layers.*.norm1.bias"},
    {"v.blk.*.ln2.weight", "^encoder.layer.*.layernorm_after.weight"},
    {"v.blk.*.ln2.weight", "^encoder.layers.*.norm2.weight"},
    {"v.blk.*.ln2.bias", "^encoder.layer.*.layernorm_after.bias"},
    {"v.blk.*.ln2.bias", "^encoder.layers.*.norm2.bias"},
    {"v.blk.*.ls1.weight", "^encoder.layer.*.lambda_1"},
    {"v.blk.*.ls1.weight", "^encoder.layers.*.ls1"},
    {"v.blk.*.ls2.weight", "^encoder.layer.*.lambda_2"},
    {"v.blk.*.ls2.weight", "^encoder.layers.*.ls2"},
    {"v.blk.*.attn_q.weight", "^encoder.layer.*.attention.q_proj.weight"},
    {"v.blk.*.attn_q.bias", "^encoder.layer.*.attention.q_proj.bias"},
    {"v.blk.*.attn_k.weight", "^encoder.layer.*.attention.k_proj.weight"},
    {"v.blk.*.attn_k.bias", "^encoder.layer.*.attention.k_proj.bias"},
    {"v.blk.*.attn_v.weight", "^encoder.layer.*.attention.v_proj.weight"},
    {"v.blk.*.attn_v.bias", "^encoder.layer.*.attention.v_proj.bias"},
    {"v.blk.*.attn_qkv.weight", "^encoder.layers.*.attn.qkv.weight"},
    {"v.blk.*.attn_qkv.bias", "^encoder.layers.*.attn.qkv.bias"},
    {"v.blk.*.attn_q_norm.weight", "^encoder.layer.*.attention.q_norm.weight"},
    {"v.blk.*.attn_q_norm.weight", "^encoder.layers.*.attn.q_norm.weight"},
    {"v.blk.*.attn_k_norm.weight", "^encoder.layer.*.attention.k_norm.weight"},
    {"v.blk.*.attn_k_norm.weight", "^encoder.layers.*.attn.k_norm.weight"},
    {"v.blk.*.attn_out.weight", "^encoder.layer.*.attention.projection_layer.weight"},
    {"v.blk.*.attn_out.weight", "^encoder.layers.*.attn.proj.weight"},
    {"v.blk.*.attn_out.bias", "^encoder.layer.*.attention.projection_layer.bias"},
    {"v.blk.*.attn_out.bias", "^encoder.layers.*.attn.proj.bias"},
    {"v.blk.*.ffn_up.weight", "^encoder.layer.*.mlp.fc1.weight"},
    {"v.blk.*.ffn_up.weight", "^encoder.layers.*.mlp.fc1.weight"},
    {"v.blk.*.ffn_up.bias", "^encoder.layer.*.mlp.fc1.bias"},
    {"v.blk.*.ffn_up.bias", "^encoder.layers.*.mlp.fc1.bias"},
    {"v.blk.*.ffn_down.weight", "^encoder.layer.*.mlp.fc2.weight"},
    {"v.blk.*.ffn_down.weight", "^encoder.layers.*.mlp.fc2.weight"},
    {"v.blk.*.ffn_down.bias", "^encoder.layer.*.mlp.fc2.bias"},
    {"v.blk.*.ffn_down.bias", "^encoder.layers.*.mlp.fc2.bias"},
    {"mm.norm.weight", "multi_modal_projector.layer_norm.weight"},
    {"mm.norm.weight", "model.multi_modal_projector.layer_norm.weight"},
    {"mm.norm.weight", "mlp1.0.weight"},
    {"mm.norm.bias", "multi_modal_projector.layer_norm.bias"},
    {"mm.norm.bias", "model.multi_modal_projector.layer_norm.bias"},
    {"mm.norm.bias", "mlp1.0.bias"},
    {"mm.1.weight", "multi_modal_projector.linear_1.weight"},
    {"mm.1.weight", "model.multi_modal_projector.linear_1.weight"},
    {"mm.1.weight", "mlp1.1.weight"},
    {"mm.1.bias", "multi_modal_projector.linear_1.bias"},
    {"mm.1.bias", "model.multi_modal_projector.linear_1.bias"},
    {"mm.1.bias", "mlp1.1.bias"},
    {"mm.3.weight", "multi_modal_projector.linear_2.weight"},
    {"mm.3.weight", "model.multi_modal_projector.linear_2.weight"},
    {"mm.3.weight", "mlp1.3.weight"},
    {"mm.3.bias", "multi_modal_projector.linear_2.bias"},
    {"mm.3.bias", "model.multi_modal_projector.linear_2.bias"},
    {"mm.3.bias", "mlp1.3.bias"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.vision_tower.", "vision_tower.", "vision_model.",
                                       "model.vision_model.", NULL};
static const char *const parts[] = {"model.vision_tower.",
                                    "vision_tower.",
                                    "vision_model.",
                                    "model.vision_model.",
                                    "model.multi_modal_projector.",
                                    "multi_modal_projector.",
                                    "mlp1.",
                                    NULL};

/* Norms are layer norms or rms norms, a setting of both layouts under different names. */
static void read_norms(struct checkpoint_keys *keys, struct vision_config *config)
{
    struct gguf_string name = checkpoint_keys_string_or_empty(keys, "norm_type");
    config->rms_norms = checkpoint_keys_is(name, "rms_norm");
    if (name.length > 0 && !config->rms_norms && !checkpoint_keys_is(name, "layer_norm"))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "norm_type is not layer_norm or rms_norm");
    bool joined = checkpoint_keys_bool_or(keys, "qk_normalization", false);
    config->qk_norms = checkpoint_keys_bool_or(keys, "use_qk_norm", joined);
    joined = checkpoint_keys_bool_or(keys, "qkv_bias", false);
    config->qkv_bias = checkpoint_keys_bool_or(keys, "attention_bias", joined);
}

static void read_ratio(struct checkpoint_keys *root, struct vision_config *config)
{
    float ratio = checkpoint_keys_f32_or(
        root, "downsample_ratio", (struct f32_range){1.0f / LIMIT_MERGE_SIDE, 1.0f}, DEFAULT_RATIO);
    uint32_t side = root->result == RESULT_OK ? (uint32_t)lroundf(1.0f / ratio) : 1;
    if (root->result == RESULT_OK && ratio * (float)side != 1.0f)
        checkpoint_keys_refuse(root, RESULT_UNSUPPORTED, "downsample_ratio %g is not 1 / n",
                               (double)ratio);
    config->vision.merge_side = side;
}

static void read_config(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config)
{
    config->activation = checkpoint_vision_activation(keys, "hidden_act", ACTIVATION_GELU_ERF);
    checkpoint_hf_clip_sizes(
        keys,
        (struct vision_terms){
            .hidden = 1024, .layers = 24, .heads = 16, .patch_side = 14, .norm_epsilon = EPSILON},
        config);
    read_norms(keys, config);
    checkpoint_keys_expect_neutral(keys, "use_mask_token", 0);
    checkpoint_keys_expect_neutral(keys, "use_absolute_position_embeddings", 1);
    checkpoint_keys_leave(root, keys);
    read_ratio(root, config);
    checkpoint_hf_feature_layer(root, "vision_feature_layer", -1, config);
    if (config->unused_layers == 0)
        checkpoint_hf_feature_layer(root, "select_layer", -1, config);
    checkpoint_keys_leave(keys, root);
    checkpoint_vision_square(keys, DEFAULT_PIXELS, config);
    config->vision.lead_row = true;
}

static const struct hf_vision_form hf_internvl = {
    .naming = {names, NULL, prefixes, NULL},
    .probe = "v.class_embd",
    .parts = parts,
    .read_config = read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static void list_features(struct plan_builder *b, const struct vision_config *c,
                          const struct tower_tensors *t)
{
    uint32_t square = c->vision.merge_side * c->vision.merge_side;
    uint32_t joined = square * c->tower.hidden, text = c->vision.text_hidden;
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined);
    plan_tensor_id wide = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    plan_ops_join_rows(b, t->residual, square, row);
    tower_blocks_layer_norm(b, row, joined, "mm.norm", JOINED_EPSILON);
    tower_blocks_linear(b, row, &(const struct tower_linear){"mm.1", text, joined, true}, wide);
    plan_ops_activate(b, wide, ACTIVATION_GELU_ERF);
    tower_blocks_linear(b, wide, &(const struct tower_linear){"mm.3", text, text, true}, feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
}

void tower_internvl_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    const struct tower_form form = {.activation = c->activation,
                                    .rms_norms = c->rms_norms,
                                    .joined_qkv = true,
                                    .no_qkv_bias = !c->qkv_bias,
                                    .qk_norms = c->qk_norms,
                                    .scales = true};
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.bias = true, .gain = 1.0f}, &t);
    tower_blocks_positions(b, c, POSITIONS_EXACT, &t);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        plan_builder_end_stage(b);
    }
    tower_blocks_skip_rest(b, c, false);
    list_features(b, c, &t);
}

const struct model_tower tower_internvl = {
    .model_types = model_types,
    .vision_types = vision_types,
    .hf = &hf_internvl,
    .ties = true,
    .list_ops = tower_internvl_list_ops,
};
