/*
 * Gemma 4's tower of sounds: a conformer (conformer_blocks.h) whose every row becomes a feature, 40 ms of sound:
 *
 *   feature = We . norm(Wp . x + bias), a norm without weights
 *
 * A row attends to attention_context_left - 2 rows before its own. Convolutions see zeros after a sound, whose last row may
 * stand for one mel row. Attention to rows after a row's own is not done (attention_context_right).
 *
 * config.json does not state the number of mels, but the first map's channels, whose fourth part is the last
 * map's columns.
 *
 * Stages: the mel rows, a convolution each, their projection, four for each layer, and the features.
 *
 * Source: transformers, configuration_gemma4.py and modeling_gemma4.py (Gemma4AudioModel).
 */
#include <math.h>

#include "worker/model/build/conformer_blocks.h"
#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf_conformer.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

#define MOST_ROWS      750u /* of 30 s, the longest sound of the publisher's processor */
#define DEFAULT_OUTPUT 1536u
#define KEY_SCALE      1.8945957159f /* ln(1 + e) / ln(2) */

/* A matrix of a layer, and the bounds of its input and output. */
#define LAYER_MATRIX(asked, stored)                                                                \
    {"v.blk.*." asked ".weight", "^layers.*." stored ".linear.weight"},                            \
        {"v.blk.*." asked ".input_min", "^layers.*." stored ".input_min"},                         \
        {"v.blk.*." asked ".input_max", "^layers.*." stored ".input_max"},                         \
        {"v.blk.*." asked ".output_min", "^layers.*." stored ".output_min"},                       \
    {                                                                                              \
        "v.blk.*." asked ".output_max", "^layers.*." stored ".output_max"                          \
    }

static const struct tensor_name names[] = {
    {"a.conv2d.0.weight", "^subsample_conv_projection.layer0.conv.weight"},
    {"a.conv2d.0.norm.weight", "^subsample_conv_projection.layer0.norm.weight"},
    {"a.conv2d.1.weight", "^subsample_conv_projection.layer1.conv.weight"},
    {"a.conv2d.1.norm.weight", "^subsample_conv_projection.layer1.norm.weight"},
    {"a.input_projection.weight", "^subsample_conv_projection.input_proj_linear.weight"},
    {"v.blk.*.ln_ffn1.weight", "^layers.*.feed_forward1.pre_layer_norm.weight"},
    {"v.blk.*.ffn1_post_norm.weight", "^layers.*.feed_forward1.post_layer_norm.weight"},
    {"v.blk.*.ln_ffn2.weight", "^layers.*.feed_forward2.pre_layer_norm.weight"},
    {"v.blk.*.ffn2_post_norm.weight", "^layers.*.feed_forward2.post_layer_norm.weight"},
    LAYER_MATRIX("ffn1_up", "feed_forward1.ffw_layer_1"),
    LAYER_MATRIX("ffn1_down", "feed_forward1.ffw_layer_2"),
    LAYER_MATRIX("ffn2_up", "feed_forward2.ffw_layer_1"),
    LAYER_MATRIX("ffn2_down", "feed_forward2.ffw_layer_2"),
    {"v.blk.*.ln1.weight", "^layers.*.norm_pre_attn.weight"},
    {"v.blk.*.attn_post_norm.weight", "^layers.*.norm_post_attn.weight"},
    {"v.blk.*.attn_scales", "^layers.*.self_attn.per_dim_scale"},
    {"v.blk.*.attn_distance.weight", "^layers.*.self_attn.relative_k_proj.weight"},
    LAYER_MATRIX("attn_q", "self_attn.q_proj"),
    LAYER_MATRIX("attn_k", "self_attn.k_proj"),
    LAYER_MATRIX("attn_v", "self_attn.v_proj"),
    LAYER_MATRIX("attn_out", "self_attn.post"),
    {"v.blk.*.ln_conv.weight", "^layers.*.lconv1d.pre_layer_norm.weight"},
    {"v.blk.*.conv.weight", "^layers.*.lconv1d.depthwise_conv1d.weight"},
    {"v.blk.*.conv_norm.weight", "^layers.*.lconv1d.conv_norm.weight"},
    LAYER_MATRIX("conv_start", "lconv1d.linear_start"),
    LAYER_MATRIX("conv_end", "lconv1d.linear_end"),
    {"v.blk.*.ln_out.weight", "^layers.*.norm_out.weight"},
    {"a.output.weight", "^output_proj.weight"},
    {"a.output.bias", "^output_proj.bias"},
    {"mm.a.fc.weight", "model.embed_audio.embedding_projection.weight"},
    {"mm.a.fc.weight", "embed_audio.embedding_projection.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.audio_tower.", "audio_tower.", NULL};
static const char *const parts[] = {"model.audio_tower.", "model.embed_audio.", "audio_tower.",
                                    "embed_audio.", NULL};

static void read_config(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config)
{
    static const struct conformer_terms terms = {.layers = "num_hidden_layers",
                                                 .heads = "num_attention_heads",
                                                 .hidden_size = 1024,
                                                 .channels = "subsampling_conv_channels",
                                                 .taps = "conv_kernel_size",
                                                 .chunk = "attention_chunk_size",
                                                 .left = "attention_context_left",
                                                 .right = "attention_context_right",
                                                 .soft_cap = "attention_logit_cap",
                                                 .residual_weight = "residual_weight"};
    struct conformer_config *own = &config->conformer;
    (void)root;
    struct conformer_context context = checkpoint_hf_conformer(keys, &terms, config);
    own->output = checkpoint_keys_u32_or(keys, "output_proj_dims",
                                         (struct u32_range){1, LIMIT_HIDDEN}, DEFAULT_OUTPUT);
    config->clipped = checkpoint_keys_bool_or(keys, "use_clipped_linears", true);
    if (keys->result == RESULT_OK && (context.left < 2 || own->channels[0] % 4 != 0))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "attention_context_left %u is below 2, or the first of "
                               "subsampling_conv_channels %u is no multiple of 4",
                               context.left, own->channels[0]);
    if (keys->result != RESULT_OK)
        return;
    if (own->channels[0] > LIMIT_AUDIO_MELS)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "%u mels are more than %u",
                               own->channels[0], LIMIT_AUDIO_MELS);
    own->before = context.left - 2;
    own->distance_offset =
        (int32_t)((context.chunk + context.left - 1) / 2) - (int32_t)(context.left - 1);
    own->map_epsilon = config->tower.norm_epsilon;
    own->lines_before = 1;
    own->key_scale = KEY_SCALE;
    config->vision.mels = own->channels[0];
    config->vision.sound_rows = MOST_ROWS;
    config->vision.row_features = true;
}

const struct hf_vision_form checkpoint_hf_gemma4_sound = {
    .naming = {names, NULL, prefixes, NULL},
    .part = "audio_config",
    .probe = "a.conv2d.0.weight",
    .parts = parts,
    .read_config = read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

void tower_gemma4_sound_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    uint32_t hidden = c->tower.hidden, output = c->conformer.output, text = c->vision.text_hidden;
    plan_tensor_id x = conformer_blocks_list(b, c);
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, hidden);
    plan_tensor_id projected = plan_builder_tensor(b, PLAN_ROWS_FEATURES, output);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    plan_ops_join_rows(b, x, 1, row);
    tower_blocks_linear(b, row, &(const struct tower_linear){"a.output", output, hidden, true},
                        projected);
    plan_ops_head_norm(b, projected, (struct column_slice){0, 1, output}, PLAN_NONE);
    tower_blocks_linear(b, projected, &(const struct tower_linear){"mm.a.fc", text, output, false},
                        feature);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
}
