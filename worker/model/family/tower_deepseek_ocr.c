/*
 * The tower of DeepSeek-OCR, beside any text, which is deepseek_v2: SAM's over patches, then CLIP's over its features.
 *
 *   x = W . pixels + bias + positions; layers of attention with relative positions, most of them in windows (op tile_attention)
 *   s = four convolutions of x: of one patch and of three by three, each with a norm, then two of three by three that halve the
 *       sides, so that a square of four by four patches becomes a feature
 *   c = CLIP's layers over a class row and s, with positions of their own, normed before them
 *   feature = W . (c | s) + bias
 *
 * A convolution of three by three is a product over neighbour_rows. The first of the two that halve the sides is computed for all
 * patches, of which the last one reads every second: less than 1 % of the tower's work.
 *
 * An image is a whole view, whose lines of features end with the row image_newline and which ends with the row view_seperator, so
 * spelt; of a larger image, tiles of a second view come first, as a record of its own (model_vision.split_views). Both tables of
 * positions are resized to the view.
 *
 * Stages: those of SAM's layers, the convolutions, those of CLIP's layers, the features, and the lines.
 *
 * Source: the publisher's deepencoder.py and modeling_deepseekocr.py; transformers, unlimited_ocr.
 */
#include <math.h>

#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

#define PIXELS       1024u
#define FEATURE_SIDE 4u /* patches */
#define SAM_EPSILON  1e-6f
#define CLIP_EPSILON 1e-5f
#define WINDOW_MOST  64u
#define WIDER        4u /* a feed-forward part than its tower */
_Static_assert(WIDER *LIMIT_HIDDEN <= LIMIT_FEED_FORWARD, "of any width");

static const char *const model_types[] = {"deepseek_vl_v2", "deepseekocr", "deepseek_ocr", NULL};
static const char *const vision_types[] = {"vision", NULL};

static const struct tensor_name names[] = {
    {"v.patch_embd.weight", "^sam_model.patch_embed.proj.weight"},
    {"v.patch_embd.bias", "^sam_model.patch_embed.proj.bias"},
    {"v.position_embd.weight", "^sam_model.pos_embed"},
    {"v.blk.*.ln1.weight", "^sam_model.blocks.*.norm1.weight"},
    {"v.blk.*.ln1.bias", "^sam_model.blocks.*.norm1.bias"},
    {"v.blk.*.ln2.weight", "^sam_model.blocks.*.norm2.weight"},
    {"v.blk.*.ln2.bias", "^sam_model.blocks.*.norm2.bias"},
    {"v.blk.*.attn_qkv.weight", "^sam_model.blocks.*.attn.qkv.weight"},
    {"v.blk.*.attn_qkv.bias", "^sam_model.blocks.*.attn.qkv.bias"},
    {"v.blk.*.attn_rel_h", "^sam_model.blocks.*.attn.rel_pos_h"},
    {"v.blk.*.attn_rel_w", "^sam_model.blocks.*.attn.rel_pos_w"},
    {"v.blk.*.attn_out.weight", "^sam_model.blocks.*.attn.proj.weight"},
    {"v.blk.*.attn_out.bias", "^sam_model.blocks.*.attn.proj.bias"},
    {"v.blk.*.ffn_up.weight", "^sam_model.blocks.*.mlp.lin1.weight"},
    {"v.blk.*.ffn_up.bias", "^sam_model.blocks.*.mlp.lin1.bias"},
    {"v.blk.*.ffn_down.weight", "^sam_model.blocks.*.mlp.lin2.weight"},
    {"v.blk.*.ffn_down.bias", "^sam_model.blocks.*.mlp.lin2.bias"},
    {"v.neck.0.weight", "^sam_model.neck.0.weight"},
    {"v.neck.1.weight", "^sam_model.neck.1.weight"},
    {"v.neck.1.bias", "^sam_model.neck.1.bias"},
    {"v.neck.2.weight", "^sam_model.neck.2.weight"},
    {"v.neck.3.weight", "^sam_model.neck.3.weight"},
    {"v.neck.3.bias", "^sam_model.neck.3.bias"},
    {"v.net_2.weight", "^sam_model.net_2.weight"},
    {"v.net_3.weight", "^sam_model.net_3.weight"},
    {"v.clip.class_embd", "^vision_model.embeddings.class_embedding"},
    {"v.clip.patch_embd", "^vision_model.embeddings.patch_embedding.weight"},
    {"v.clip.position_ids", "^vision_model.embeddings.position_ids"},
    {"v.clip.position_embd.weight", "^vision_model.embeddings.position_embedding.weight"},
    {"v.clip.pre_ln.weight", "^vision_model.pre_layrnorm.weight"},
    {"v.clip.pre_ln.bias", "^vision_model.pre_layrnorm.bias"},
    {"v.clip.blk.*.ln1.weight", "^vision_model.transformer.layers.*.layer_norm1.weight"},
    {"v.clip.blk.*.ln1.bias", "^vision_model.transformer.layers.*.layer_norm1.bias"},
    {"v.clip.blk.*.ln2.weight", "^vision_model.transformer.layers.*.layer_norm2.weight"},
    {"v.clip.blk.*.ln2.bias", "^vision_model.transformer.layers.*.layer_norm2.bias"},
    {"v.clip.blk.*.attn_qkv.weight",
     "^vision_model.transformer.layers.*.self_attn.qkv_proj.weight"},
    {"v.clip.blk.*.attn_qkv.bias", "^vision_model.transformer.layers.*.self_attn.qkv_proj.bias"},
    {"v.clip.blk.*.attn_out.weight",
     "^vision_model.transformer.layers.*.self_attn.out_proj.weight"},
    {"v.clip.blk.*.attn_out.bias", "^vision_model.transformer.layers.*.self_attn.out_proj.bias"},
    {"v.clip.blk.*.ffn_up.weight", "^vision_model.transformer.layers.*.mlp.fc1.weight"},
    {"v.clip.blk.*.ffn_up.bias", "^vision_model.transformer.layers.*.mlp.fc1.bias"},
    {"v.clip.blk.*.ffn_down.weight", "^vision_model.transformer.layers.*.mlp.fc2.weight"},
    {"v.clip.blk.*.ffn_down.bias", "^vision_model.transformer.layers.*.mlp.fc2.bias"},
    {"mm.0.weight", "^projector.layers.weight"},
    {"mm.0.bias", "^projector.layers.bias"},
    {"v.image_newline", "^image_newline"},
    {"v.view_seperator", "^view_seperator"},
    {"v.view_seperator", "^view_separator"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", "", NULL};
static const char *const parts[] = {"model.sam_model.",
                                    "model.vision_model.",
                                    "model.projector.",
                                    "model.image_new",
                                    "model.view_sep",
                                    "sam_model.",
                                    "vision_model.",
                                    "projector.",
                                    "image_new",
                                    "view_sep",
                                    NULL};

/* The features of SAM take the place of CLIP's patches. */
static const char *const unused[] = {
    "model.vision_model.embeddings.patch_embedding.", "model.vision_model.embeddings.position_ids",
    "vision_model.embeddings.patch_embedding.", "vision_model.embeddings.position_ids", NULL};

static const struct u32_range hidden_range = {1, LIMIT_HIDDEN};

static void read_sam(struct checkpoint_keys *keys, struct vision_config *config)
{
    const struct vision_terms terms = {.hidden_key = "width",
                                       .layers_key = "layers",
                                       .heads_key = "heads",
                                       .hidden = 768,
                                       .layers = 12,
                                       .heads = 12,
                                       .patch_side = 16,
                                       .norm_epsilon = SAM_EPSILON};
    uint32_t seeing[LIMIT_LAYERS] = {2, 5, 8, 11}, count = 4, halves[2] = {512, 1024}, given = 2;
    checkpoint_vision_sizes(keys, &terms, config);
    config->tower.feed_forward = WIDER * config->tower.hidden;
    config->activation = ACTIVATION_GELU_ERF;
    config->qkv_bias = true;
    config->vision.merge_side = FEATURE_SIDE;
    config->tile_window =
        checkpoint_keys_u32_or(keys, "window_size", (struct u32_range){1, WINDOW_MOST}, 14);
    config->neck[0] = checkpoint_keys_u32_or(keys, "output_channels", hidden_range, 256);
    if (!checkpoint_hf_vision_list(keys, "global_attn_indexes", config->layers, LIMIT_LAYERS,
                                   seeing, &count))
        count = config->layers > seeing[3] ? 4 : 0;
    for (uint32_t i = 0; keys->result == RESULT_OK && i < count; i++)
        config->sees_all[seeing[i]] = true;
    if (!checkpoint_hf_vision_list(keys, "downsample_channels", LIMIT_HIDDEN + 1, 2, halves,
                                   &given))
        given = 2;
    config->neck[1] = halves[0];
    config->neck[2] = halves[1];
    if (keys->result == RESULT_OK && (given != 2 || halves[0] == 0 || halves[1] == 0))
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "key downsample_channels is no list of two sizes");
}

static void read_clip(struct checkpoint_keys *keys, struct vision_config *config)
{
    struct vision_config own = {.vision = config->vision};
    const struct vision_terms terms = {.hidden_key = "width",
                                       .layers_key = "layers",
                                       .heads_key = "heads",
                                       .hidden = 1024,
                                       .layers = 24,
                                       .heads = 16,
                                       .patch_side = 14,
                                       .norm_epsilon = CLIP_EPSILON};
    checkpoint_vision_sizes(keys, &terms, &own);
    checkpoint_vision_square(keys, 224, &own);
    config->second = (struct second_tower){.hidden = own.tower.hidden,
                                           .layers = own.layers,
                                           .heads = own.tower.heads,
                                           .feed_forward = WIDER * own.tower.hidden,
                                           .table_side = own.table_side,
                                           .norm_epsilon = CLIP_EPSILON};
    if (keys->result == RESULT_OK && own.tower.hidden != config->neck[2])
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "a width of %u, but features of %u columns take the place of its "
                               "patches",
                               own.tower.hidden, config->neck[2]);
}

static void read_projector(struct checkpoint_keys *root, struct vision_config *config)
{
    struct checkpoint_keys keys = checkpoint_keys_enter(root, "projector_config");
    uint32_t columns = config->second.hidden + config->neck[2], text = config->vision.text_hidden;
    checkpoint_hf_expect_word(&keys, "projector_type", "linear");
    uint32_t in = checkpoint_keys_u32_or(&keys, "input_dim",
                                         (struct u32_range){1, 2 * LIMIT_HIDDEN}, columns);
    uint32_t out = checkpoint_keys_u32_or(&keys, "n_embed", hidden_range, text);
    if (keys.result == RESULT_OK && (in != columns || out != text))
        checkpoint_keys_refuse(
            &keys, RESULT_INVALID,
            "input_dim %u and n_embed %u are not the towers' %u and the text's %u", in, out,
            columns, text);
    checkpoint_keys_leave(root, &keys);
}

static void read_config(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config)
{
    struct checkpoint_keys both = checkpoint_keys_enter(keys, "width");
    struct checkpoint_keys sam = checkpoint_keys_enter(&both, "sam_vit_b");
    read_sam(&sam, config);
    checkpoint_keys_leave(&both, &sam);
    struct checkpoint_keys clip = checkpoint_keys_enter(&both, "clip-l-14-224");
    if (both.result == RESULT_OK)
        read_clip(&clip, config);
    checkpoint_keys_leave(&both, &clip);
    checkpoint_keys_leave(keys, &both);
    checkpoint_vision_square(keys, PIXELS, config);
    config->vision.max_side = config->vision.fixed_side; /* tiles are smaller */
    config->vision.fixed_side = 0;
    config->vision.lead_row = config->vision.mosaic = config->vision.split_views = true;
    checkpoint_keys_leave(root, keys);
    checkpoint_hf_expect_word(root, "tile_tag", "2D");
    checkpoint_hf_expect_word(root, "global_view_pos", "head");
    read_projector(root, config);
    checkpoint_keys_leave(keys, root);
}

static const struct hf_vision_form hf_deepseek_ocr = {
    .naming = {names, NULL, prefixes, unused},
    .probe = "v.patch_embd.weight",
    .parts = parts,
    .read_config = read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

struct neck_tensors {
    plan_tensor_id x; /* what the last convolution gave */
    uint32_t columns;
};

static void list_matrix(struct plan_builder *b, plan_tensor_id x, plan_weight_id matrix,
                        plan_tensor_id out)
{
    plan_ops_linear(b, x, (struct linear_weights){matrix, PLAN_NONE, PLAN_NONE}, out);
}

/* A convolution over three by three patches that are `step` apart. */
static void list_convolution(struct plan_builder *b, const char *name, uint32_t step,
                             uint32_t columns, plan_tensor_id out, struct neck_tensors *neck)
{
    uint32_t joined = NEIGHBOURS * neck->columns;
    bool features = step > 1, channels_last = plan_builder_fastest(b, name) != 3;
    plan_tensor_id rows =
        plan_builder_tensor(b, features ? PLAN_ROWS_FEATURES : PLAN_ROWS_PATCHES, joined);
    plan_builder_end_stage(b);
    plan_ops_neighbour_rows(b, neck->x, step, rows);
    list_matrix(b, rows,
                channels_last ? plan_builder_flat(b, columns, joined, "%s", name)
                              : plan_builder_interleaved(b, columns, joined, NEIGHBOURS, name),
                out);
    *neck = (struct neck_tensors){out, columns};
}

/* From SAM's layers to its features. */
static void list_neck(struct plan_builder *b, const struct vision_config *c, plan_tensor_id x,
                      plan_tensor_id features)
{
    uint32_t columns = c->neck[0];
    plan_tensor_id first = plan_builder_tensor(b, PLAN_ROWS_PATCHES, columns);
    plan_tensor_id second = plan_builder_tensor(b, PLAN_ROWS_PATCHES, columns);
    plan_tensor_id halved = plan_builder_tensor(b, PLAN_ROWS_PATCHES, c->neck[1]);
    struct neck_tensors neck = {first, columns};
    list_matrix(b, x, plan_builder_flat(b, columns, c->tower.hidden, "v.neck.0.weight"), first);
    tower_blocks_norm(b, false, first, columns, "v.neck.1", first);
    list_convolution(b, "v.neck.2.weight", 1, columns, second, &neck);
    tower_blocks_norm(b, false, second, columns, "v.neck.3", second);
    list_convolution(b, "v.net_2.weight", 1, c->neck[1], halved, &neck);
    list_convolution(b, "v.net_3.weight", 2, c->neck[2], features, &neck);
}

/* CLIP's sizes in the fields of the first tower. */
static struct vision_config second_config(const struct vision_config *c)
{
    struct vision_config clip = *c;
    clip.layers = c->second.layers;
    clip.table_side = c->second.table_side;
    clip.tower.hidden = c->second.hidden;
    clip.tower.feed_forward = c->second.feed_forward;
    clip.tower.heads = clip.tower.kv_heads = c->second.heads;
    clip.tower.head_dim = c->second.hidden / c->second.heads;
    clip.tower.attention_scale = 1.0f / sqrtf((float)clip.tower.head_dim);
    return clip;
}

/* CLIP's layers over t->residual, which is the first tower's features. */
static void list_second(struct plan_builder *b, const struct vision_config *c,
                        const struct tower_form *form, const struct tower_tensors *t)
{
    uint32_t hidden = c->tower.hidden, side = c->table_side;
    plan_ops_patch_positions(
        b, t->residual,
        plan_builder_flat(b, side * side + 1, hidden, "v.clip.position_embd.weight"),
        plan_builder_flat(b, 1, hidden, "v.clip.class_embd"),
        (struct patch_positions_params){POSITIONS_CUBIC_AVERAGED, side, true});
    tower_blocks_layer_norm(b, t->residual, hidden, "v.clip.pre_ln", form->epsilon);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, form, layer, t);
        plan_builder_end_stage(b);
    }
}

/* The columns of x become those of `out` from `first` on. */
static void list_copy(struct plan_builder *b, plan_tensor_id x, uint32_t first, plan_tensor_id out)
{
    plan_ops_clip_columns(
        b, x,
        (struct clip_columns_params){.offset = first, .minimum = -INFINITY, .maximum = INFINITY},
        out);
}

/* The features of both towers side by side, projected. */
static plan_tensor_id list_features(struct plan_builder *b, const struct vision_config *c,
                                    const struct tower_tensors *t)
{
    struct vision_config clip = second_config(c);
    const struct tower_form form = {.joined_qkv = true,
                                    .of_features = true,
                                    .epsilon = c->second.norm_epsilon,
                                    .blocks = "v.clip.blk",
                                    .activation = ACTIVATION_GELU_QUICK};
    struct tower_tensors own = tower_blocks_add_tensors(b, &clip, &form);
    uint32_t text = c->vision.text_hidden, joined = clip.tower.hidden + c->neck[2];
    plan_tensor_id both = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    list_neck(b, c, t->residual, own.residual);
    list_copy(b, own.residual, clip.tower.hidden, both);
    list_second(b, &clip, &form, &own);
    list_copy(b, own.residual, 0, both);
    tower_blocks_linear(b, both, &(const struct tower_linear){"mm.0", text, joined, true}, feature);
    plan_builder_end_stage(b);
    return feature;
}

void tower_deepseek_ocr_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    const struct tower_form form = {
        .joined_qkv = true, .relative = true, .activation = c->activation};
    uint32_t text = c->vision.text_hidden, side = c->table_side;
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.bias = true, .gain = 1.0f}, &t);
    plan_ops_patch_positions(
        b, t.residual, plan_builder_flat(b, side * side, c->tower.hidden, "v.position_embd.weight"),
        PLAN_NONE, (struct patch_positions_params){POSITIONS_CUBIC_AVERAGED, side, false});
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        plan_builder_end_stage(b);
    }
    plan_tensor_id feature = list_features(b, c, &t);
    plan_ops_feature_place(b, feature, plan_builder_vector(b, text, "v.image_newline"),
                           FEATURE_OF_SQUARE);
    plan_ops_feature_place(b, feature, plan_builder_vector(b, text, "v.view_seperator"),
                           FEATURE_BETWEEN_VIEWS);
    plan_builder_end_stage(b);
}

const struct model_tower tower_deepseek_ocr = {
    .model_types = model_types,
    .vision_types = vision_types,
    .tower_name = "deeplip_b_l",
    .text_type = "deepseek_v2",
    .hf = &hf_deepseek_ocr,
    .list_ops = tower_deepseek_ocr_list_ops,
};
