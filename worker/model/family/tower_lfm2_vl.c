/*
 * LFM2-VL: SigLIP 2's tower for images of any size, beside any text family, mostly lfm2. The table of
 * positions is resized to the patches of each tile, and averaged where it is finer than they are.
 * Squares of patches are joined and projected:
 *
 *   feature = W2 . gelu(W1 . [layer_norm](join(norm(x))) [+ bias]) [+ bias]
 *
 * Stages: those of the layers, and the features.
 *
 * Source: transformers, configuration_ and modeling_ files of lfm2_vl and siglip2.
 */
#include <math.h>

#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

#define DEFAULT_FACTOR    2u
#define DEFAULT_WIDE      2560u
#define DEFAULT_POSITIONS 256u
#define NORM_EPSILON      1e-5f /* torch's, which the class does not state */

static const char *const whole_types[] = {"lfm2_vl", NULL};
static const char *const vision_types[] = {"siglip2_vision_model", NULL};

static const struct tensor_name names[] = {
    {"mm.input_norm.weight", "multi_modal_projector.layer_norm.weight"},
    {"mm.input_norm.weight", "model.multi_modal_projector.layer_norm.weight"},
    {"mm.input_norm.bias", "multi_modal_projector.layer_norm.bias"},
    {"mm.input_norm.bias", "model.multi_modal_projector.layer_norm.bias"},
    {"mm.1.weight", "multi_modal_projector.linear_1.weight"},
    {"mm.1.weight", "model.multi_modal_projector.linear_1.weight"},
    {"mm.1.bias", "multi_modal_projector.linear_1.bias"},
    {"mm.1.bias", "model.multi_modal_projector.linear_1.bias"},
    {"mm.2.weight", "multi_modal_projector.linear_2.weight"},
    {"mm.2.weight", "model.multi_modal_projector.linear_2.weight"},
    {"mm.2.bias", "multi_modal_projector.linear_2.bias"},
    {"mm.2.bias", "model.multi_modal_projector.linear_2.bias"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.vision_tower.vision_model.",
                                       "vision_tower.vision_model.", "model.vision_tower.",
                                       "vision_tower.", NULL};
static const char *const parts[] = {"model.vision_tower.", "vision_tower.",
                                    "model.multi_modal_projector.", "multi_modal_projector.", NULL};

/* The table is a square of num_patches positions. */
static void read_table(struct checkpoint_keys *keys, struct vision_config *config)
{
    uint32_t positions = checkpoint_keys_u32_or(
        keys, "num_patches", (struct u32_range){1, LIMIT_PATCH_POSITIONS}, DEFAULT_POSITIONS);
    uint32_t side = (uint32_t)lroundf(sqrtf((float)positions));
    if (keys->result == RESULT_OK && side * side != positions)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "num_patches %u is no square", positions);
    config->table_side = side;
}

static void read_config(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config)
{
    config->activation = checkpoint_vision_activation(keys, "hidden_act", ACTIVATION_GELU_TANH);
    checkpoint_hf_clip_sizes(
        keys, (struct vision_terms){.hidden = 768, .layers = 12, .heads = 12, .patch_side = 16},
        config);
    read_table(keys, config);
    checkpoint_keys_leave(root, keys);
    config->vision.merge_side = checkpoint_keys_u32_or(
        root, "downsample_factor", (struct u32_range){1, LIMIT_MERGE_SIDE}, DEFAULT_FACTOR);
    config->projector_wide = checkpoint_keys_u32_or(
        root, "projector_hidden_size", (struct u32_range){1, LIMIT_FEED_FORWARD}, DEFAULT_WIDE);
    config->projector_bias = checkpoint_keys_bool_or(root, "projector_bias", true);
    config->projector_epsilon =
        checkpoint_keys_bool_or(root, "projector_use_layernorm", true) ? NORM_EPSILON : 0.0f;
    if (checkpoint_vision_activation(root, "projector_hidden_act", ACTIVATION_GELU_ERF) !=
        ACTIVATION_GELU_ERF)
        checkpoint_keys_refuse(root, RESULT_UNSUPPORTED, "projector_hidden_act is not gelu");
    checkpoint_keys_leave(keys, root);
}

static const struct hf_vision_form hf_lfm2_vl = {
    .naming = {names, checkpoint_hf_clip_names, prefixes, NULL},
    .probe = "v.patch_embd.weight",
    .parts = parts,
    .read_config = read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static void list_features(struct plan_builder *b, const struct vision_config *c, plan_tensor_id x)
{
    uint32_t square = c->vision.merge_side * c->vision.merge_side;
    uint32_t joined = square * c->tower.hidden, text = c->vision.text_hidden;
    uint32_t wide = c->projector_wide;
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined);
    plan_tensor_id inner = plan_builder_tensor(b, PLAN_ROWS_FEATURES, wide);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    plan_ops_join_rows(b, x, square, row);
    if (c->projector_epsilon > 0)
        tower_blocks_layer_norm(b, row, joined, "mm.input_norm", c->projector_epsilon);
    tower_blocks_linear(
        b, row, &(const struct tower_linear){"mm.1", wide, joined, c->projector_bias}, inner);
    plan_ops_activate(b, inner, ACTIVATION_GELU_ERF);
    tower_blocks_linear(
        b, inner, &(const struct tower_linear){"mm.2", text, wide, c->projector_bias}, feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
}

void tower_lfm2_vl_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    const struct tower_form form = {.activation = c->activation};
    bool kernel = plan_builder_fastest(b, "v.patch_embd.weight") == c->vision.patch_side;
    const struct tower_patches patches = {.bias = true, .channels_last = !kernel, .gain = 1.0f};
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    tower_blocks_list_patches(b, c, &patches, &t);
    tower_blocks_positions(b, c, POSITIONS_AVERAGED, &t);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        plan_builder_end_stage(b);
    }
    tower_blocks_skip_head(b);
    tower_blocks_norm(b, false, t.residual, c->tower.hidden, "v.post_ln", t.normed);
    list_features(b, c, t.normed);
}

const struct model_tower tower_lfm2_vl = {
    .model_types = whole_types,
    .vision_types = vision_types,
    .hf = &hf_lfm2_vl,
    .ties = true,
    .list_ops = tower_lfm2_vl_list_ops,
};
