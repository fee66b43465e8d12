/*
 * LLaVA's towers and projection, beside any text family: CLIP's or SigLIP's layers over squares of
 * one size, up to the layer that the config names, and two matrices:
 *
 *   feature = W2 . gelu(W0 . x + bias) + bias
 *
 * llava has one square for an image. llava_next (LLaVA 1.6) and llava_onevision add the tiles of a
 * larger size as a mosaic (model_vision.h), with the row image_newline after each line.
 *
 * CLIP has a class row, which attends and is dropped, and a norm before the first layer; SigLIP has
 * neither. The norm after the last layer is not part of the model.
 *
 * Stages: those of the layers, the features, and the mosaics.
 *
 * Source: transformers, configuration_ and modeling_ files of llava, llava_next, llava_onevision;
 * modeling_clip.py.
 */
#include <string.h>

#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

#define CLIP_EPSILON   1e-5f
#define DEFAULT_PIXELS 224u

static const char *const model_types[] = {"llava", NULL};
static const char *const next_types[] = {"llava_next", NULL};
static const char *const onevision_types[] = {"llava_onevision", NULL};
static const char *const vision_types[] = {"clip_vision_model", "siglip_vision_model", NULL};
static const char *const siglip_first[] = {"siglip_vision_model", "clip_vision_model", NULL};

static const struct tensor_name names[] = {
    {"mm.0.weight", "multi_modal_projector.linear_1.weight"},
    {"mm.0.weight", "model.multi_modal_projector.linear_1.weight"},
    {"mm.0.bias", "multi_modal_projector.linear_1.bias"},
    {"mm.0.bias", "model.multi_modal_projector.linear_1.bias"},
    {"mm.2.weight", "multi_modal_projector.linear_2.weight"},
    {"mm.2.weight", "model.multi_modal_projector.linear_2.weight"},
    {"mm.2.bias", "multi_modal_projector.linear_2.bias"},
    {"mm.2.bias", "model.multi_modal_projector.linear_2.bias"},
    {"v.image_newline", "image_newline"},
    {"v.image_newline", "model.image_newline"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"vision_tower.vision_model.",
                                       "model.vision_tower.vision_model.", "vision_tower.",
                                       "model.vision_tower.", NULL};
static const char *const parts[] = {"vision_tower.",
                                    "multi_modal_projector.",
                                    "model.vision_tower.",
                                    "model.multi_modal_projector.",
                                    "image_newline",
                                    "model.image_newline",
                                    NULL};

/* The defaults in which the classes differ. */
struct llava_class {
    const char *vision_type;
    const char *selection;
    int layer;
    bool mosaic;
};

static void read_class(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                       const struct llava_class *class, struct vision_config *config)
{
    struct gguf_string type = checkpoint_keys_string_or_empty(keys, "model_type");
    if (type.length == 0)
        type = (struct gguf_string){class->vision_type, strlen(class->vision_type)};
    bool clip = checkpoint_keys_is(type, "clip_vision_model");
    config->activation = checkpoint_vision_activation(
        keys, "hidden_act", clip ? ACTIVATION_GELU_QUICK : ACTIVATION_GELU_TANH);
    checkpoint_hf_clip_sizes(keys,
                             (struct vision_terms){.hidden = 768,
                                                   .layers = 12,
                                                   .heads = 12,
                                                   .patch_side = clip ? 32 : 16,
                                                   .norm_epsilon = clip ? CLIP_EPSILON : 0.0f},
                             config);
    checkpoint_vision_square(keys, DEFAULT_PIXELS, config);
    config->vision.lead_row = clip;
    config->vision.mosaic = class->mosaic;
    checkpoint_keys_leave(root, keys);
    checkpoint_hf_feature_selection(root, class->selection, clip);
    if (checkpoint_vision_activation(root, "projector_hidden_act", ACTIVATION_GELU_ERF) !=
        ACTIVATION_GELU_ERF)
        checkpoint_keys_refuse(root, RESULT_UNSUPPORTED, "projector_hidden_act is not gelu");
    config->projector_bias = checkpoint_keys_bool_or(root, "multimodal_projector_bias", true);
    checkpoint_hf_feature_layer(root, "vision_feature_layer", class->layer, config);
    checkpoint_keys_leave(keys, root);
}

static void read_llava(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                       struct vision_config *config)
{
    read_class(keys, root, &(const struct llava_class){vision_types[0], "default", -2, false},
               config);
}

static void read_next(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                      struct vision_config *config)
{
    read_class(keys, root, &(const struct llava_class){vision_types[0], "default", -2, true},
               config);
}

static void read_onevision(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                           struct vision_config *config)
{
    read_class(keys, root, &(const struct llava_class){siglip_first[0], "full", -1, true}, config);
}

static const struct hf_vision_form hf_llava = {
    .naming = {names, checkpoint_hf_clip_names, prefixes, NULL},
    .probe = "v.patch_embd.weight",
    .parts = parts,
    .read_config = read_llava,
};
static const struct hf_vision_form hf_next = {
    .naming = {names, checkpoint_hf_clip_names, prefixes, NULL},
    .probe = "v.patch_embd.weight",
    .parts = parts,
    .read_config = read_next,
};
static const struct hf_vision_form hf_onevision = {
    .naming = {names, checkpoint_hf_clip_names, prefixes, NULL},
    .probe = "v.patch_embd.weight",
    .parts = parts,
    .read_config = read_onevision,
};

/* --- ops -------------------------------------------------------------------------------------- */

void tower_llava_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    const struct tower_form form = {.activation = c->activation};
    uint32_t hidden = c->tower.hidden, text = c->vision.text_hidden;
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, hidden);
    plan_tensor_id wide = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    tower_blocks_list_patches(
        b, c, &(const struct tower_patches){.bias = !c->vision.lead_row, .gain = 1.0f}, &t);
    tower_blocks_positions(b, c, POSITIONS_EXACT, &t);
    if (c->vision.lead_row)
        tower_blocks_norm(b, false, t.residual, hidden, "v.pre_ln", t.residual);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        plan_builder_end_stage(b);
    }
    tower_blocks_skip_rest(b, c, true);
    if (!c->vision.lead_row)
        tower_blocks_skip_head(b);
    plan_ops_join_rows(b, t.residual, 1, row);
    tower_blocks_linear(
        b, row, &(const struct tower_linear){"mm.0", text, hidden, c->projector_bias}, wide);
    plan_ops_activate(b, wide, ACTIVATION_GELU_ERF);
    tower_blocks_linear(
        b, wide, &(const struct tower_linear){"mm.2", text, text, c->projector_bias}, feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
    if (!c->vision.mosaic) {
        plan_builder_use_in_config(b, "v.image_newline");
        return;
    }
    plan_ops_feature_place(b, feature, plan_builder_vector(b, text, "v.image_newline"),
                           FEATURE_OF_SQUARE);
    plan_builder_end_stage(b);
}

const struct model_tower tower_llava = {
    .model_types = model_types,
    .vision_types = vision_types,
    .hf = &hf_llava,
    .list_ops = tower_llava_list_ops,
};

const struct model_tower tower_llava_next = {
    .model_types = next_types,
    .vision_types = vision_types,
    .hf = &hf_next,
    .list_ops = tower_llava_list_ops,
};

const struct model_tower tower_llava_onevision = {
    .model_types = onevision_types,
    .vision_types = siglip_first,
    .hf = &hf_onevision,
    .list_ops = tower_llava_list_ops,
};
