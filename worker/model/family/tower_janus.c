/*
 * The tower of Janus by which it sees, beside any text, which is llama: SigLIP's layers over squares of one size, a
 * norm after them, and two matrices:
 *
 *   feature = W1 . gelu(W0 . norm(x) + bias) + bias
 *
 * What Janus makes images with is not used. Folders of transformers (janus) and the publisher's
 * (multi_modality) differ in names and keys; the latter names the tower instead of its sizes.
 *
 * Stages: those of the layers, and the features.
 *
 * Source: transformers, configuration_janus.py and modeling_janus.py; the publisher's siglip_vit.py and
 * projector.py for multi_modality.
 */
#include <string.h>

#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

#define JANUS_PIXELS 384u

static const char *const model_types[] = {"janus", NULL};
static const char *const vision_types[] = {"janus_vision_model", "", NULL};
static const char *const published_types[] = {"multi_modality", NULL};
static const char *const published_towers[] = {"vision", NULL};

static const struct tensor_name names[] = {
    {"v.blk.*.attn_out.weight", "^encoder.layers.*.self_attn.projection_layer.weight"},
    {"v.blk.*.attn_out.bias", "^encoder.layers.*.self_attn.projection_layer.bias"},
    {"mm.0.weight", "model.aligner.fc1.weight"},
    {"mm.0.bias", "model.aligner.fc1.bias"},
    {"mm.1.weight", "model.aligner.hidden_layers.0.weight"},
    {"mm.1.bias", "model.aligner.hidden_layers.0.bias"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.vision_model.", NULL};
static const char *const parts[] = {"model.vision_model.", "model.aligner.", "model.vqmodel.",
                                    "model.generation_", NULL};
static const char *const made[] = {"model.vqmodel.", "model.generation_", NULL};

static const struct tensor_name published_names[] = {
    HF_TIMM_NAMES,
    {"mm.0.weight", "aligner.layers.0.weight"},
    {"mm.0.bias", "aligner.layers.0.bias"},
    {"mm.1.weight", "aligner.layers.2.weight"},
    {"mm.1.bias", "aligner.layers.2.bias"},
    {NULL, NULL},
};
static const char *const published_prefixes[] = {"vision_model.vision_tower.", "vision_model.",
                                                 NULL};
static const char *const published_parts[] = {"vision_model.", "aligner.", "gen_", NULL};
/* SigLIP's pooling head is not used. */
static const char *const published_made[] = {"vision_model.vision_tower.attn_pool.",
                                             "vision_model.attn_pool.", "gen_", NULL};

static void read_squares(struct checkpoint_keys *keys, const struct vision_terms *terms,
                         float ratio, struct vision_config *config)
{
    checkpoint_hf_clip_sizes(keys, *terms, config);
    config->activation = checkpoint_vision_activation(keys, "hidden_act", ACTIVATION_GELU_ERF);
    checkpoint_hf_read_ratio(keys, ratio, config);
}

static void read_config(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config)
{
    (void)root;
    read_squares(
        keys,
        &(const struct vision_terms){.hidden = 1024, .layers = 24, .heads = 16, .patch_side = 16},
        4.0f, config);
    checkpoint_keys_expect_neutral(keys, "use_qk_norm", 0);
    checkpoint_keys_expect_neutral(keys, "depth", 2);
    config->qkv_bias = checkpoint_keys_bool_or(keys, "attention_bias", true);
    uint32_t wide =
        checkpoint_keys_u32_or(keys, "projection_dim", (struct u32_range){1, LIMIT_HIDDEN}, 2048);
    if (keys->result == RESULT_OK && wide != config->vision.text_hidden)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "projection_dim %u is not the text's %u", wide,
                               config->vision.text_hidden);
    checkpoint_vision_square(keys, JANUS_PIXELS, config);
}

/* The publisher's towers, by name; keys of single sizes win. */
static const struct {
    const char *name;
    uint32_t hidden, layers, heads, patch_side;
    float ratio;
} towers[] = {
    {"siglip_large_patch16_384", 1024, 24, 16, 16, 4.0f},
    {"siglip_large_patch16_256", 1024, 24, 16, 16, 4.0f},
    {"siglip_so400m_patch14_384", 1152, 27, 16, 14, 3.7362f},
};

static void check_aligner(struct checkpoint_keys *root, struct vision_config *config)
{
    struct checkpoint_keys aligner = checkpoint_keys_enter(root, "aligner_config");
    struct checkpoint_keys params = checkpoint_keys_enter(&aligner, "params");
    struct gguf_string kind = checkpoint_keys_string_or_empty(&params, "projector_type");
    checkpoint_keys_expect_neutral(&params, "depth", 2);
    if (params.result == RESULT_OK && !checkpoint_keys_is(kind, "mlp_gelu"))
        checkpoint_keys_refuse(&params, RESULT_UNSUPPORTED, "projector_type is not \"mlp_gelu\"");
    uint32_t wide = checkpoint_keys_u32_or(&params, "n_embed", (struct u32_range){1, LIMIT_HIDDEN},
                                           config->vision.text_hidden);
    if (params.result == RESULT_OK && wide != config->vision.text_hidden)
        checkpoint_keys_refuse(&params, RESULT_INVALID, "n_embed %u is not the text's %u", wide,
                               config->vision.text_hidden);
    checkpoint_keys_leave(&aligner, &params);
    checkpoint_keys_leave(root, &aligner);
}

static void read_published(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                           struct vision_config *config)
{
    struct checkpoint_keys params = checkpoint_keys_enter(keys, "params");
    struct gguf_string name = checkpoint_keys_string_or_empty(&params, "model_name");
    size_t i = 0;
    while (i < sizeof towers / sizeof towers[0] && !checkpoint_keys_is(name, towers[i].name))
        i++;
    if (params.result == RESULT_OK && i == sizeof towers / sizeof towers[0])
        checkpoint_keys_refuse(&params, RESULT_UNSUPPORTED, "model_name \"%.*s\"",
                               (int)(name.length < 64 ? name.length : 64), name.bytes);
    struct gguf_string feature = checkpoint_keys_string_or_empty(&params, "select_feature");
    if (params.result == RESULT_OK && feature.length > 0 && !checkpoint_keys_is(feature, "same"))
        checkpoint_keys_refuse(&params, RESULT_UNSUPPORTED, "select_feature is not \"same\"");
    uint32_t pixels = checkpoint_keys_u32_or(
        &params, "image_size", (struct u32_range){1, LIMIT_PATCH_SIDE * LIMIT_PATCH_ROWS},
        JANUS_PIXELS);
    checkpoint_keys_leave(keys, &params);
    if (keys->result != RESULT_OK)
        return;
    read_squares(keys,
                 &(const struct vision_terms){.hidden = towers[i].hidden,
                                              .layers = towers[i].layers,
                                              .heads = towers[i].heads,
                                              .patch_side = towers[i].patch_side},
                 towers[i].ratio, config);
    config->qkv_bias = true;
    checkpoint_vision_square(keys, pixels, config);
    checkpoint_keys_leave(root, keys);
    check_aligner(root, config);
    checkpoint_keys_leave(keys, root);
}

static const struct hf_vision_form hf_janus = {
    .naming = {names, checkpoint_hf_clip_names, prefixes, made},
    .probe = "v.patch_embd.weight",
    .parts = parts,
    .read_config = read_config,
};

static const struct hf_vision_form hf_published = {
    .naming = {published_names, NULL, published_prefixes, published_made},
    .probe = "v.patch_embd.weight",
    .parts = published_parts,
    .read_config = read_published,
};

/* --- ops -------------------------------------------------------------------------------------- */

void tower_janus_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    const struct tower_form form = {
        .joined_qkv = true, .no_qkv_bias = !c->qkv_bias, .activation = c->activation};
    uint32_t hidden = c->tower.hidden, text = c->vision.text_hidden;
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, hidden);
    plan_tensor_id wide = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.bias = true, .gain = 1.0f}, &t);
    tower_blocks_positions(b, c, POSITIONS_EXACT, &t);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        plan_builder_end_stage(b);
    }
    tower_blocks_norm(b, false, t.residual, hidden, "v.post_ln", t.normed);
    plan_ops_join_rows(b, t.normed, 1, row);
    tower_blocks_linear(b, row, &(const struct tower_linear){"mm.0", text, hidden, true}, wide);
    plan_ops_activate(b, wide, c->activation);
    tower_blocks_linear(b, wide, &(const struct tower_linear){"mm.1", text, text, true}, feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
}

const struct model_tower tower_janus = {
    .model_types = model_types,
    .vision_types = vision_types,
    .hf = &hf_janus,
    .ties = true,
    .list_ops = tower_janus_list_ops,
};

const struct model_tower tower_multi_modality = {
    .model_types = published_types,
    .vision_types = published_towers,
    .hf = &hf_published,
    .list_ops = tower_janus_list_ops,
};
