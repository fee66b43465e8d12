/*
 * The tower of DeepSeek-VL2, beside any text, which is deepseek_v2: SigLIP's layers over tiles of one size, a norm after
 * them, and two matrices over squares of patches, whose side does not divide a tile's (op join_padded):
 *
 *   feature = W1 . gelu(W0 . join(norm(x)) + bias) + bias
 *
 * An image is a first tile, the whole of it, and the tiles of a larger size (model_vision.lined): the rows image_newline
 * and view_seperator, so spelt, are after each line and between the two.
 *
 * Stages: those of the layers, the norm, the features, and the mosaics.
 *
 * Source: the publisher's siglip_vit.py and modeling_deepseek_vl_v2.py; mlx-vlm, deepseek_vl_v2.
 */
#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

#define PIXELS       384u
#define RATIO        3.7362f
#define NORM_EPSILON 1e-6f

static const char *const model_types[] = {"deepseek_vl_v2", NULL};
static const char *const vision_types[] = {"vision", NULL};

static const struct tensor_name names[] = {
    HF_TIMM_NAMES,
    {"mm.0.weight", "projector.layers.0.weight"},
    {"mm.0.bias", "projector.layers.0.bias"},
    {"mm.2.weight", "projector.layers.2.weight"},
    {"mm.2.bias", "projector.layers.2.bias"},
    {"v.image_newline", "image_newline"},
    {"v.view_seperator", "view_seperator"},
    {"v.view_seperator", "view_separator"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"vision.vision_tower.", "vision.", NULL};
static const char *const parts[] = {"vision.", "projector.", "image_new", "view_sep", NULL};
/* SigLIP's pooling head is not used. */
static const char *const unused[] = {"vision.attn_pool.", "vision.vision_tower.attn_pool.", NULL};

static void read_projector(struct checkpoint_keys *root, struct vision_config *config)
{
    struct checkpoint_keys keys = checkpoint_keys_enter(root, "projector_config");
    checkpoint_hf_expect_word(&keys, "projector_type", "downsample_mlp_gelu");
    checkpoint_keys_expect_neutral(&keys, "depth", 2);
    checkpoint_keys_expect_neutral(&keys, "token_pooling", 0);
    uint32_t text = config->vision.text_hidden;
    uint32_t out =
        checkpoint_keys_u32_or(&keys, "n_embed", (struct u32_range){1, LIMIT_HIDDEN}, 2048);
    uint32_t in = checkpoint_keys_u32_or(&keys, "input_dim", (struct u32_range){1, LIMIT_HIDDEN},
                                         config->tower.hidden);
    uint32_t ratio = checkpoint_keys_u32_or(&keys, "mlp_ratio", (struct u32_range){1, 16}, 1);
    config->vision.join_side = checkpoint_keys_u32_or(&keys, "downsample_ratio",
                                                      (struct u32_range){1, LIMIT_MERGE_SIDE}, 2);
    if (keys.result == RESULT_OK && (out != text || in != config->tower.hidden))
        checkpoint_keys_refuse(&keys, RESULT_INVALID,
                               "input_dim %u and n_embed %u are not the tower's %u and the text's "
                               "%u",
                               in, out, config->tower.hidden, text);
    config->projector_wide = ratio * text;
    if (keys.result == RESULT_OK && config->projector_wide > LIMIT_FEED_FORWARD)
        checkpoint_keys_refuse(&keys, RESULT_TOO_LARGE, "mlp_ratio %u of %u columns", ratio, text);
    checkpoint_keys_leave(root, &keys);
}

static void read_config(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config)
{
    const struct vision_terms terms = {.hidden_key = "width",
                                       .layers_key = "layers",
                                       .heads_key = "num_attention_heads",
                                       .hidden = 1152,
                                       .layers = 27,
                                       .heads = 16,
                                       .patch_side = 14,
                                       .norm_epsilon = NORM_EPSILON};
    checkpoint_vision_sizes(keys, &terms, config);
    checkpoint_hf_read_ratio(keys, RATIO, config);
    config->activation = ACTIVATION_GELU_ERF;
    config->qkv_bias = true;
    checkpoint_hf_expect_word(keys, "model_name", "siglip_so400m_patch14_384");
    checkpoint_vision_square(keys, PIXELS, config);
    config->vision.mosaic = config->vision.lined = true;
    checkpoint_keys_leave(root, keys);
    checkpoint_hf_expect_word(root, "tile_tag", "2D");
    checkpoint_hf_expect_word(root, "global_view_pos", "head");
    read_projector(root, config);
    checkpoint_keys_leave(keys, root);
}

static const struct hf_vision_form hf_deepseek_vl_v2 = {
    .naming = {names, NULL, prefixes, unused},
    .probe = "v.patch_embd.weight",
    .parts = parts,
    .read_config = read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

/* Up to the features; columns of W0 go through channels first. */
static plan_tensor_id list_features(struct plan_builder *b, const struct vision_config *c,
                                    plan_tensor_id x)
{
    const struct join_padded_params params = {c->vision.fixed_side, c->vision.join_side};
    uint32_t square = params.join * params.join, joined = square * c->tower.hidden;
    uint32_t wide = c->projector_wide, text = c->vision.text_hidden;
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined);
    plan_tensor_id inner = plan_builder_tensor(b, PLAN_ROWS_FEATURES, wide);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    plan_ops_join_padded(b, x, params, row);
    plan_ops_linear(
        b, row,
        (struct linear_weights){plan_builder_interleaved(b, wide, joined, square, "mm.0.weight"),
                                PLAN_NONE, PLAN_NONE},
        inner);
    plan_ops_bias_add(
        b, inner,
        (struct linear_weights){plan_builder_vector(b, wide, "mm.0.bias"), PLAN_NONE, PLAN_NONE});
    plan_ops_activate(b, inner, ACTIVATION_GELU_ERF);
    tower_blocks_linear(b, inner, &(const struct tower_linear){"mm.2", text, wide, true}, feature);
    plan_builder_end_stage(b);
    return feature;
}

void tower_deepseek_vl_v2_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    const struct tower_form form = {.joined_qkv = true, .activation = c->activation};
    uint32_t text = c->vision.text_hidden;
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.bias = true, .gain = 1.0f}, &t);
    tower_blocks_positions(b, c, POSITIONS_EXACT, &t);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        plan_builder_end_stage(b);
    }
    tower_blocks_norm(b, false, t.residual, c->tower.hidden, "v.post_ln", t.normed);
    plan_builder_end_stage(b);
    plan_tensor_id feature = list_features(b, c, t.normed);
    plan_ops_feature_place(b, feature, plan_builder_vector(b, text, "v.image_newline"),
                           FEATURE_OF_SQUARE);
    plan_ops_feature_place(b, feature, plan_builder_vector(b, text, "v.view_seperator"),
                           FEATURE_BETWEEN_VIEWS);
    plan_builder_end_stage(b);
}

const struct model_tower tower_deepseek_vl_v2 = {
    .model_types = model_types,
    .vision_types = vision_types,
    .hf = &hf_deepseek_vl_v2,
    .list_ops = tower_deepseek_vl_v2_list_ops,
};
