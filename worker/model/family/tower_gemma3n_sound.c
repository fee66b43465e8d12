/*
 * Gemma 3n's tower of sounds: a conformer (conformer_blocks.h) of which every fourth row becomes a feature, 160 ms of sound:
 *
 *   feature = norm(We . norm(x)), the last norm without weights
 *
 * Every sound has as many tokens as the longest one (audio_soft_tokens_per_image). After the features of a sound stands the
 * embedding of the vocabulary's last token, one of the tower's own tokens, for each of the rest.
 *
 * A row attends to attention_context_left - 1 rows before its own. Convolutions see the two lines after their own, and zeros after a
 * sound; the publisher's processor has no mel rows there either, unless a longer sound is beside it. Attention to rows after a
 * row's own is not done.
 *
 * The tower of images is not done.
 *
 * Stages: the mel rows, a convolution each, their projection, four for each layer, the features, and the rest.
 *
 * Source: transformers, configuration_gemma3n.py and modeling_gemma3n.py (Gemma3nAudioEncoder, Gemma3nModel).
 */
#include "worker/model/build/conformer_blocks.h"
#include "worker/model/build/gemma_blocks.h"
#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf_conformer.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

/* --- config.json ------------------------------------------------------------------------------ */

#define DEFAULT_TOKENS 188u
#define TOKENS_MOST    4096u
#define DEFAULT_VOCAB  262400u

static const struct tensor_name names[] = {
    {"a.conv2d.0.weight", "^subsample_conv_projection.conv_0.conv.weight"},
    {"a.conv2d.0.norm.weight", "^subsample_conv_projection.conv_0.norm.weight"},
    {"a.conv2d.1.weight", "^subsample_conv_projection.conv_1.conv.weight"},
    {"a.conv2d.1.norm.weight", "^subsample_conv_projection.conv_1.norm.weight"},
    {"a.input_projection.weight", "^subsample_conv_projection.input_proj_linear.weight"},
    {"v.blk.*.ln_ffn1.weight", "^conformer.*.ffw_layer_start.pre_layer_norm.weight"},
    {"v.blk.*.ffn1_up.weight", "^conformer.*.ffw_layer_start.ffw_layer_1.weight"},
    {"v.blk.*.ffn1_down.weight", "^conformer.*.ffw_layer_start.ffw_layer_2.weight"},
    {"v.blk.*.ffn1_post_norm.weight", "^conformer.*.ffw_layer_start.post_layer_norm.weight"},
    {"v.blk.*.ln_ffn2.weight", "^conformer.*.ffw_layer_end.pre_layer_norm.weight"},
    {"v.blk.*.ffn2_up.weight", "^conformer.*.ffw_layer_end.ffw_layer_1.weight"},
    {"v.blk.*.ffn2_down.weight", "^conformer.*.ffw_layer_end.ffw_layer_2.weight"},
    {"v.blk.*.ffn2_post_norm.weight", "^conformer.*.ffw_layer_end.post_layer_norm.weight"},
    {"v.blk.*.ln1.weight", "^conformer.*.attention.pre_attn_norm.weight"},
    {"v.blk.*.attn_post_norm.weight", "^conformer.*.attention.post_norm.weight"},
    {"v.blk.*.attn_scales", "^conformer.*.attention.attn.per_dim_scale"},
    {"v.blk.*.attn_distance.weight",
     "^conformer.*.attention.attn.relative_position_embedding.pos_proj.weight"},
    {"v.blk.*.attn_q.weight", "^conformer.*.attention.attn.q_proj.weight"},
    {"v.blk.*.attn_k.weight", "^conformer.*.attention.attn.k_proj.weight"},
    {"v.blk.*.attn_v.weight", "^conformer.*.attention.attn.v_proj.weight"},
    {"v.blk.*.attn_out.weight", "^conformer.*.attention.post.weight"},
    {"v.blk.*.ln_conv.weight", "^conformer.*.lconv1d.pre_layer_norm.weight"},
    {"v.blk.*.conv_start.weight", "^conformer.*.lconv1d.linear_start.weight"},
    {"v.blk.*.conv.weight", "^conformer.*.lconv1d.depthwise_conv1d.weight"},
    {"v.blk.*.conv_norm.weight", "^conformer.*.lconv1d.conv_norm.weight"},
    {"v.blk.*.conv_end.weight", "^conformer.*.lconv1d.linear_end.weight"},
    {"v.blk.*.ln_out.weight", "^conformer.*.norm.weight"},
    {"mm.a.norm.weight", "model.embed_audio.soft_embedding_norm.weight"},
    {"mm.a.fc.weight", "model.embed_audio.embedding_projection.weight"},
    {"hard.audio.embedding.weight", "model.embed_audio.embedding.weight"},
    {"hard.audio.norm.weight", "model.embed_audio.hard_embedding_norm.weight"},
    {"hard.audio.projection.weight", "model.embed_audio.embedding_projection.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.audio_tower.", NULL};
static const char *const parts[] = {"model.audio_tower.", "model.embed_audio.", NULL};

/* A list of two pairs of this number. */
static void expect_pairs(struct checkpoint_keys *keys, const char *name, uint32_t number)
{
    struct json_value list = json_value_member(keys->object, name), pair, element;
    bool equal = json_value_type(list) == JSON_ABSENT || json_value_type(list) == JSON_ARRAY;
    uint32_t count = 0;
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &pair);)
        for (struct json_reader in = json_value_elements(pair); json_value_next(&in, &element);) {
            uint32_t found = 0;
            equal &= json_value_u32(element, &found) == RESULT_OK && found == number;
            count++;
        }
    if (keys->result == RESULT_OK &&
        (!equal || (count != 4 && json_value_type(list) != JSON_ABSENT)))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "%s is not two pairs of %u", name, number);
}

/* Where the last token of the text's vocabulary is among the tower's own ones. */
static void read_rest(struct checkpoint_keys *root, struct vision_config *config)
{
    static const struct modality_tokens absent = {262272, 128, 1536, 1e-6f};
    struct checkpoint_keys text = checkpoint_keys_enter(root, "text_config");
    uint32_t vocab = checkpoint_keys_u32_or(
        &text, "vocab_size", (struct u32_range){1, LIMIT_VOCAB_TOKENS}, DEFAULT_VOCAB);
    checkpoint_keys_leave(root, &text);
    struct checkpoint_keys keys = checkpoint_keys_enter(root, "audio_config");
    struct modality_tokens *tokens = &config->conformer.rest;
    checkpoint_hf_modality_tokens(&keys, &absent, tokens);
    checkpoint_keys_leave(root, &keys);
    if (root->result != RESULT_OK)
        return;
    if (vocab - 1 < tokens->first || vocab - 1 - tokens->first >= tokens->rows)
        checkpoint_keys_refuse(root, RESULT_UNSUPPORTED,
                               "the last of %u tokens is none of a sound's %u from %u on", vocab,
                               tokens->rows, tokens->first);
    else
        config->conformer.rest_row = vocab - 1 - tokens->first;
}

static void read_config(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config)
{
    static const struct conformer_terms terms = {.layers = "conf_num_hidden_layers",
                                                 .heads = "conf_num_attention_heads",
                                                 .hidden_size = 1536,
                                                 .channels = "sscp_conv_channel_size",
                                                 .taps = "conf_conv_kernel_size",
                                                 .chunk = "conf_attention_chunk_size",
                                                 .left = "conf_attention_context_left",
                                                 .right = "conf_attention_context_right",
                                                 .soft_cap = "conf_attention_logit_cap",
                                                 .residual_weight = "conf_residual_weight"};
    struct conformer_config *own = &config->conformer;
    struct conformer_context context = checkpoint_hf_conformer(keys, &terms, config);
    expect_pairs(keys, "sscp_conv_kernel_size", 3);
    expect_pairs(keys, "sscp_conv_stride_size", 2);
    own->map_epsilon = checkpoint_keys_f32_or(keys, "sscp_conv_group_norm_eps",
                                              (struct f32_range){1e-12f, 1.0f}, 1e-3f);
    own->past_norms = true;
    config->vision.mels = checkpoint_keys_u32_or(keys, "input_feat_size",
                                                 (struct u32_range){1, LIMIT_AUDIO_MELS}, 128);
    config->vision.sound_join = checkpoint_keys_u32_or(keys, "conf_reduction_factor",
                                                       (struct u32_range){1, LIMIT_MERGE_SIDE}, 4);
    config->vision.sound_tokens = checkpoint_keys_u32_or(
        root, "audio_soft_tokens_per_image", (struct u32_range){1, TOKENS_MOST}, DEFAULT_TOKENS);
    read_rest(root, config);
    checkpoint_keys_leave(keys, root);
    if (keys->result != RESULT_OK)
        return;
    own->before = context.left - 1;
    config->vision.sound_rows = config->vision.sound_tokens * config->vision.sound_join;
}

const struct hf_vision_form checkpoint_hf_gemma3n_sound = {
    .naming = {names, NULL, prefixes, NULL},
    .part = "audio_config",
    .probe = "a.conv2d.0.weight",
    .parts = parts,
    .read_config = read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

void tower_gemma3n_sound_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    uint32_t hidden = c->tower.hidden, text = c->vision.text_hidden, join = c->vision.sound_join;
    const struct modality_rows rest = {"audio", c->conformer.rest, c->conformer.rest_row, 1, text};
    plan_tensor_id x = conformer_blocks_list(b, c);
    plan_tensor_id joined = plan_builder_tensor(b, PLAN_ROWS_FEATURES, join * hidden);
    plan_tensor_id row = plan_builder_tensor(b, PLAN_ROWS_FEATURES, hidden);
    plan_tensor_id feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, text);
    plan_ops_join_rows(b, x, join, joined);
    plan_ops_take_heads(b, joined, (struct take_heads_params){.heads = 1}, row);
    tower_blocks_norm(b, true, row, hidden, "mm.a.norm", row);
    tower_blocks_linear(b, row, &(const struct tower_linear){"mm.a.fc", text, hidden, false},
                        feature);
    plan_ops_head_norm(b, feature, (struct column_slice){0, 1, text}, PLAN_NONE);
    plan_ops_feature_write(b, feature, 0);
    plan_builder_end_stage(b);
    plan_ops_feature_place(b, feature, gemma_blocks_modality_rows(b, &rest), FEATURE_AFTER_IMAGE);
    plan_builder_end_stage(b);
}
