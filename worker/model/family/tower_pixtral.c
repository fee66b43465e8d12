/*
 * Pixtral's tower, in Mistral 3 and in Pixtral (class llava), beside any text family: images of any
 * size, rms norms, gates, no biases; a norm before the first layer and none after the last. Half of
 * a head rotates by the line and half by the column, which share the frequencies of a head.
 *
 *   Mistral 3   feature = W2 . gelu(W1 . Wmerge . join(norm(x)) [+ bias]) [+ bias]
 *   Pixtral     feature = W2 . gelu(W1 . x [+ bias]) [+ bias]
 *
 * The columns of Wmerge are stored channel by channel, each with the patches of its square.
 *
 * Stages: those of the layers, and the features.
 *
 * Source: transformers, configuration_ and modeling_ files of pixtral, mistral3 and llava.
 */
#include <math.h>

#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

#define EPSILON      1e-5f
#define ROPE_BASE    10000.0f
#define DEFAULT_WIDE 4096u

static const char *const mistral3_types[] = {"mistral3", NULL};
static const char *const pixtral_types[] = {"llava", NULL};
static const char *const vision_types[] = {"pixtral", NULL};

static const struct tensor_name names[] = {
    {"v.patch_embd.weight", "^patch_conv.weight"},
    {"v.pre_ln.weight", "^ln_pre.weight"},
    {"v.blk.*.ln1.weight", "^transformer.layers.*.attention_norm.weight"},
    {"v.blk.*.ln2.weight", "^transformer.layers.*.ffn_norm.weight"},
    {"v.blk.*.attn_q.weight", "^transformer.layers.*.attention.q_proj.weight"},
    {"v.blk.*.attn_k.weight", "^transformer.layers.*.attention.k_proj.weight"},
    {"v.blk.*.attn_v.weight", "^transformer.layers.*.attention.v_proj.weight"},
    {"v.blk.*.attn_out.weight", "^transformer.layers.*.attention.o_proj.weight"},
    {"v.blk.*.ffn_gate.weight", "^transformer.layers.*.feed_forward.gate_proj.weight"},
    {"v.blk.*.ffn_up.weight", "^transformer.layers.*.feed_forward.up_proj.weight"},
    {"v.blk.*.ffn_down.weight", "^transformer.layers.*.feed_forward.down_proj.weight"},
    {"mm.norm.weight", "multi_modal_projector.norm.weight"},
    {"mm.norm.weight", "model.multi_modal_projector.norm.weight"},
    {"mm.merge.weight", "multi_modal_projector.patch_merger.merging_layer.weight"},
    {"mm.merge.weight", "model.multi_modal_projector.patch_merger.merging_layer.weight"},
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
static const char *const prefixes[] = {"vision_tower.", "model.vision_tower.", NULL};
static const char *const parts[] = {"vision_tower.", "multi_modal_projector.",
                                    "model.vision_tower.", "model.multi_modal_projector.", NULL};

/* Reads what both classes have. */
static void read_shared(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        bool absent_bias, struct vision_config *config)
{
    config->activation = checkpoint_vision_activation(keys, "hidden_act", ACTIVATION_GELU_ERF);
    checkpoint_vision_sizes(keys,
                            &(const struct vision_terms){.hidden_key = "hidden_size",
                                                         .hidden = 1024,
                                                         .layers_key = "num_hidden_layers",
                                                         .layers = 24,
                                                         .heads_key = "num_attention_heads",
                                                         .heads = 16,
                                                         .patch_side = 16,
                                                         .norm_epsilon = EPSILON},
                            config);
    config->tower.feed_forward = checkpoint_keys_u32_or(
        keys, "intermediate_size", (struct u32_range){1, LIMIT_FEED_FORWARD}, DEFAULT_WIDE);
    float base =
        checkpoint_keys_f32_or(keys, "rope_theta", (struct f32_range){1.0f, 1e12f}, ROPE_BASE);
    checkpoint_vision_rope_shared(keys, base, config);
    checkpoint_keys_leave(root, keys);
    if (checkpoint_vision_activation(root, "projector_hidden_act", ACTIVATION_GELU_ERF) !=
        ACTIVATION_GELU_ERF)
        checkpoint_keys_refuse(root, RESULT_UNSUPPORTED, "projector_hidden_act is not gelu");
    config->projector_bias =
        checkpoint_keys_bool_or(root, "multimodal_projector_bias", absent_bias);
}

static void read_mistral3(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                          struct vision_config *config)
{
    read_shared(keys, root, false, config);
    config->vision.merge_side = checkpoint_keys_u32_or(root, "spatial_merge_size",
                                                       (struct u32_range){1, LIMIT_MERGE_SIDE}, 2);
    checkpoint_hf_feature_layer(root, "vision_feature_layer", -1, config);
    checkpoint_keys_leave(keys, root);
}

static void read_pixtral(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                         struct vision_config *config)
{
    read_shared(keys, root, true, config);
    checkpoint_hf_feature_selection(root, "default", false);
    checkpoint_hf_feature_layer(root, "vision_feature_layer", -2, config);
    checkpoint_keys_leave(keys, root);
}

static const struct hf_vision_form hf_mistral3 = {
    .naming = {names, NULL, prefixes, NULL},
    .probe = "v.patch_embd.weight",
    .parts = parts,
    .read_config = read_mistral3,
};
static const struct hf_vision_form hf_pixtral = {
    .naming = {names, NULL, prefixes, NULL},
    .probe = "v.patch_embd.weight",
    .parts = parts,
    .read_config = read_pixtral,
};

/* --- ops -------------------------------------------------------------------------------------- */

static struct tower_tensors list_layers(struct plan_builder *b, const struct vision_config *c)
{
    const struct tower_form form = {.rms_norms = true,
                                    .rotates = true,
                                    .no_qkv_bias = true,
                                    .no_biases = true,
                                    .gated = true,
                                    .activation = c->activation};
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.gain = 1.0f}, &t);
    tower_blocks_norm(b, true, t.residual, c->tower.hidden, "v.pre_ln", t.residual);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        plan_builder_end_stage(b);
    }
    tower_blocks_skip_rest(b, c, false);
    plan_builder_use_in_config(b, "v.token_embd.img_break"); /* a row of the text's table */
    return t;
}

static void list_projection(struct plan_builder *b, const struct vision_config *c,
                            plan_tensor_id row)
{
    uint32_t hidden = c->tower.hidden, text = c->vision.text_hidden;
    plan_tensor_id wide = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    tower_blocks_linear(
        b, row, &(const struct tower_linear){"mm.1", text, hidden, c->projector_bias}, wide);
    plan_ops_activate(b, wide, ACTIVATION_GELU_ERF);
    tower_blocks_linear(
        b, wide, &(const struct tower_linear){"mm.2", text, text, c->projector_bias}, feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
}

void tower_mistral3_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    uint32_t square = c->vision.merge_side * c->vision.merge_side, hidden = c->tower.hidden;
    struct tower_tensors t = list_layers(b, c);
    plan_tensor_id joined = plan_builder_tensor(b, PLAN_ROWS_FEATURES, square * hidden);
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, hidden);
    /* norming s * x with epsilon e is norming x with e / s^2 */
    plan_ops_rms_norm_scaled(b, t.residual, plan_builder_vector(b, hidden, "mm.norm.weight"),
                             sqrtf(EPSILON / c->text_epsilon), t.normed);
    plan_ops_join_rows(b, t.normed, square, joined);
    plan_ops_linear(b, joined,
                    (struct linear_weights){plan_builder_interleaved(b, hidden, square * hidden,
                                                                     square, "mm.merge.weight"),
                                            PLAN_NONE, PLAN_NONE},
                    row);
    list_projection(b, c, row);
}

void tower_pixtral_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    struct tower_tensors t = list_layers(b, c);
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, c->tower.hidden);
    plan_ops_join_rows(b, t.residual, 1, row);
    list_projection(b, c, row);
}

const struct model_tower tower_mistral3 = {
    .model_types = mistral3_types,
    .vision_types = vision_types,
    .hf = &hf_mistral3,
    .ties = true,
    .list_ops = tower_mistral3_list_ops,
};
const struct model_tower tower_pixtral = {
    .model_types = pixtral_types,
    .vision_types = vision_types,
    .hf = &hf_pixtral,
    .list_ops = tower_pixtral_list_ops,
};
