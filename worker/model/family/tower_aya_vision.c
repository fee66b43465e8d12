/*
 * Aya Vision and Cohere's Command A Vision: SigLIP's layers over tiles of one size, beside any text
 * family. Squares of patches are joined and projected by a gated part, whose gate is the second half:
 *
 *   h | g = W1 . [layer_norm](join(x)) + bias
 *   feature = W2 . (h * silu(g)) + bias
 *
 * Aya Vision norms the joined rows and ends after a layer that the config names; Command A Vision
 * ends after the tower's last norm instead and has no norm of joined rows.
 *
 * cohere2's text multiplies logits by logit_scale here too, as its own class and vLLM do; transformers
 * 5.24 leaves that out in these two classes.
 *
 * Stages: those of the layers, and the features.
 *
 * Source: transformers, configuration_ and modeling_ files of aya_vision and cohere2_vision.
 */
#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

#define DEFAULT_FACTOR  2u
#define DEFAULT_EPSILON 1e-6f
#define DEFAULT_PIXELS  224u
#define COHERE_WIDE     36864u

static const char *const aya_types[] = {"aya_vision", NULL};
static const char *const cohere_types[] = {"cohere2_vision", NULL};
static const char *const vision_types[] = {"siglip_vision_model", NULL};

static const struct tensor_name names[] = {
    {"mm.norm.weight", "multi_modal_projector.layernorm.weight"},
    {"mm.norm.weight", "model.multi_modal_projector.layernorm.weight"},
    {"mm.norm.bias", "multi_modal_projector.layernorm.bias"},
    {"mm.norm.bias", "model.multi_modal_projector.layernorm.bias"},
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

/* Reads what both classes have; the projection's width has another default in each. */
static void read_shared(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        uint32_t absent_wide, struct vision_config *config)
{
    const struct u32_range even = {2, LIMIT_FEED_FORWARD};
    checkpoint_keys_leave(keys, root);
    config->activation = checkpoint_vision_activation(keys, "hidden_act", ACTIVATION_GELU_TANH);
    checkpoint_hf_clip_sizes(
        keys, (struct vision_terms){.hidden = 768, .layers = 12, .heads = 12, .patch_side = 16},
        config);
    checkpoint_keys_leave(root, keys);
    config->vision.merge_side = checkpoint_keys_u32_or(
        root, "downsample_factor", (struct u32_range){1, LIMIT_MERGE_SIDE}, DEFAULT_FACTOR);
    config->projector_wide =
        checkpoint_keys_u32_or(root, "alignment_intermediate_size", even, absent_wide);
    if (root->result == RESULT_OK && config->projector_wide % 2 != 0)
        checkpoint_keys_refuse(root, RESULT_INVALID, "alignment_intermediate_size %u is odd",
                               config->projector_wide);
    checkpoint_keys_leave(keys, root);
    checkpoint_vision_square(keys, DEFAULT_PIXELS, config);
}

static void read_aya(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                     struct vision_config *config)
{
    read_shared(keys, root, config->vision.text_hidden, config);
    checkpoint_keys_leave(root, keys);
    config->projector_epsilon = checkpoint_keys_f32_or(
        root, "adapter_layer_norm_eps", (struct f32_range){1e-12f, 1e-1f}, DEFAULT_EPSILON);
    checkpoint_hf_feature_selection(root, "full", false);
    checkpoint_hf_feature_layer(root, "vision_feature_layer", -1, config);
    checkpoint_keys_leave(keys, root);
}

static void read_cohere(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config)
{
    read_shared(keys, root, COHERE_WIDE, config);
}

static const struct hf_vision_form hf_aya = {
    .naming = {names, checkpoint_hf_clip_names, prefixes, NULL},
    .probe = "v.patch_embd.weight",
    .parts = parts,
    .read_config = read_aya,
};
static const struct hf_vision_form hf_cohere = {
    .naming = {names, checkpoint_hf_clip_names, prefixes, NULL},
    .probe = "v.patch_embd.weight",
    .parts = parts,
    .read_config = read_cohere,
};

/* --- ops -------------------------------------------------------------------------------------- */

/* out = half `index` of W1 . x + bias */
static void list_half(struct plan_builder *b, plan_tensor_id x, uint32_t index, uint32_t columns,
                      uint32_t wide, plan_tensor_id out)
{
    plan_ops_linear(
        b, x,
        (struct linear_weights){plan_builder_part(b, 2, index, wide, columns, "mm.1.weight"),
                                PLAN_NONE, PLAN_NONE},
        out);
    plan_ops_bias_add(
        b, out,
        (struct linear_weights){plan_builder_vector_part(b, 2, index, wide, "mm.1.bias"), PLAN_NONE,
                                PLAN_NONE});
}

static void list_features(struct plan_builder *b, const struct vision_config *c, plan_tensor_id x)
{
    uint32_t square = c->vision.merge_side * c->vision.merge_side;
    uint32_t joined = square * c->tower.hidden, text = c->vision.text_hidden;
    uint32_t wide = c->projector_wide / 2;
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined);
    plan_tensor_id half = plan_builder_tensor(b, PLAN_ROWS_FEATURES, wide);
    plan_tensor_id gate = plan_builder_tensor(b, PLAN_ROWS_FEATURES, wide);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    plan_ops_join_rows(b, x, square, row);
    if (c->projector_epsilon > 0)
        tower_blocks_layer_norm(b, row, joined, "mm.norm", c->projector_epsilon);
    list_half(b, row, 0, joined, wide, half);
    list_half(b, row, 1, joined, wide, gate);
    plan_ops_gate_with(b, gate, half, 0, GATE_SILU, gate);
    tower_blocks_linear(b, gate, &(const struct tower_linear){"mm.2", text, wide, true}, feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
}

static struct tower_tensors list_layers(struct plan_builder *b, const struct vision_config *c)
{
    const struct tower_form form = {.activation = c->activation};
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.bias = true, .gain = 1.0f}, &t);
    tower_blocks_positions(b, c, POSITIONS_EXACT, &t);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        plan_builder_end_stage(b);
    }
    tower_blocks_skip_head(b);
    return t;
}

void tower_aya_vision_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    struct tower_tensors t = list_layers(b, c);
    tower_blocks_skip_rest(b, c, true);
    list_features(b, c, t.residual);
}

void tower_cohere2_vision_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    struct tower_tensors t = list_layers(b, c);
    tower_blocks_norm(b, false, t.residual, c->tower.hidden, "v.post_ln", t.normed);
    list_features(b, c, t.normed);
}

const struct model_tower tower_aya_vision = {
    .model_types = aya_types,
    .vision_types = vision_types,
    .hf = &hf_aya,
    .ties = true,
    .list_ops = tower_aya_vision_list_ops,
};
const struct model_tower tower_cohere2_vision = {
    .model_types = cohere_types,
    .vision_types = vision_types,
    .hf = &hf_cohere,
    .ties = true,
    .list_ops = tower_cohere2_vision_list_ops,
};
