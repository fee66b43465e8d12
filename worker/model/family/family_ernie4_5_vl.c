/*
 * ERNIE 4.5 VL (ernie4_5_vl_moe; published as ernie4_5_moe_vl): the layers of ernie4_5_moe, in which rows of images have
 * experts, scores and biases of their own, narrower ones, and all rows share one expert. Of the adjacent pairs of a head
 * the first ones turn by line and column in turn, the last ones by time. The tower is Qwen2-VL's with
 * patches of one frame.
 */
#include <string.h>

#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_experts.h"
#include "worker/model/hf/checkpoint_hf_qwen_tower.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

#define ROPE_BASE   500000.0f
#define IMAGE_START 101304u
#define IMAGE_END   101305u

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Published folders have the text's keys beside vision_config, and lists of one number for each kind of rows where
 * transformers has one.
 *
 * Source: transformers, configuration_ernie4_5_vl_moe.py, modeling_ernie4_5_vl_moe.py, conversion_mapping.py.
 */
static const char *const model_types[] = {"ernie4_5_vl_moe", "ernie4_5_vl_moe_text",
                                          "ernie4_5_moe_vl", NULL};
static const char *const wholes[] = {"ernie4_5_vl_moe", "ernie4_5_moe_vl", NULL};
static const char *const own_keys[] = {"num_experts", NULL};
static const char *const texts[] = {"model.language_model.", "model.", NULL};
static const char *const parts[] = {"model.vision_tower.",
                                    "model.vision_model.",
                                    "vision_model.",
                                    "model.resampler_model.",
                                    "model.mtp_",
                                    "mtp_",
                                    NULL};
static const char *const towers[] = {"vision_model.", "model.vision_model.", "model.vision_tower.",
                                     NULL};
static const char *const ahead[] = {"model.mtp_", "mtp_", NULL};

static const struct tensor_name names[] = {
    {"blk.*.ffn_image_gate_inp.weight", "^layers.*.mlp.gate.weight_1"},
    {"blk.*.exp_probs_b.bias", "^layers.*.mlp.moe_statics.e_score_correction_bias"},
    HF_SHARED_EXPERT_NAMES,
    {NULL, NULL},
};

static const struct tensor_name tower_names[] = {
    {"v.patch_embd.weight", "^patch_embed.proj.weight"},
    {"v.blk.*.ffn_up.weight", "^blocks.*.mlp.fc1.weight"},
    {"v.blk.*.ffn_up.bias", "^blocks.*.mlp.fc1.bias"},
    {"v.blk.*.ffn_down.weight", "^blocks.*.mlp.fc2.weight"},
    {"v.blk.*.ffn_down.bias", "^blocks.*.mlp.fc2.bias"},
    {"v.post_ln.weight", "^ln.weight"},
    {"v.post_ln.bias", "^ln.bias"},
    {"mm.spatial.fc1.weight", "model.resampler_model.spatial_linear.0.weight"},
    {"mm.spatial.fc1.weight", "model.resampler_model.spatial_linear.fc1.weight"},
    {"mm.spatial.fc1.bias", "model.resampler_model.spatial_linear.0.bias"},
    {"mm.spatial.fc1.bias", "model.resampler_model.spatial_linear.fc1.bias"},
    {"mm.spatial.fc2.weight", "model.resampler_model.spatial_linear.2.weight"},
    {"mm.spatial.fc2.weight", "model.resampler_model.spatial_linear.fc2.weight"},
    {"mm.spatial.fc2.bias", "model.resampler_model.spatial_linear.2.bias"},
    {"mm.spatial.fc2.bias", "model.resampler_model.spatial_linear.fc2.bias"},
    {"mm.spatial.norm.weight", "model.resampler_model.spatial_linear.3.weight"},
    {"mm.spatial.norm.weight", "model.resampler_model.spatial_linear.ln.weight"},
    {"mm.spatial.norm.bias", "model.resampler_model.spatial_linear.3.bias"},
    {"mm.spatial.norm.bias", "model.resampler_model.spatial_linear.ln.bias"},
    {"mm.temporal.fc1.weight", "model.resampler_model.temporal_linear.0.weight"},
    {"mm.temporal.fc1.weight", "model.resampler_model.temporal_linear.fc1.weight"},
    {"mm.temporal.fc1.bias", "model.resampler_model.temporal_linear.0.bias"},
    {"mm.temporal.fc1.bias", "model.resampler_model.temporal_linear.fc1.bias"},
    {"mm.temporal.fc2.weight", "model.resampler_model.temporal_linear.2.weight"},
    {"mm.temporal.fc2.weight", "model.resampler_model.temporal_linear.fc2.weight"},
    {"mm.temporal.fc2.bias", "model.resampler_model.temporal_linear.2.bias"},
    {"mm.temporal.fc2.bias", "model.resampler_model.temporal_linear.fc2.bias"},
    {"mm.temporal.norm.weight", "model.resampler_model.temporal_linear.3.weight"},
    {"mm.temporal.norm.weight", "model.resampler_model.temporal_linear.ln.weight"},
    {"mm.temporal.norm.bias", "model.resampler_model.temporal_linear.3.bias"},
    {"mm.temporal.norm.bias", "model.resampler_model.temporal_linear.ln.bias"},
    {"mm.fc.weight", "model.resampler_model.mlp.weight"},
    {"mm.fc.bias", "model.resampler_model.mlp.bias"},
    {"mm.post_norm.weight", "model.resampler_model.after_norm.weight"},
    {NULL, NULL},
};

/* A number for both kinds of rows, or a list of two; `pair` has the defaults. */
static void read_pair(struct checkpoint_keys *keys, const char *name, uint32_t most,
                      uint32_t pair[2])
{
    uint32_t stated[2], count = 0;
    if (json_value_type(json_value_member(keys->object, name)) != JSON_ARRAY) {
        uint32_t one = checkpoint_keys_u32_or(keys, name, (struct u32_range){0, most}, UINT32_MAX);
        if (one != UINT32_MAX)
            pair[0] = pair[1] = one;
        return;
    }
    (void)checkpoint_hf_vision_list(keys, name, most + 1, 2, stated, &count);
    if (keys->result == RESULT_OK && count != 2)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is no list of two numbers", name);
    if (keys->result != RESULT_OK)
        return;
    pair[0] = stated[0];
    pair[1] = stated[1];
}

/* The same of two equal numbers of at least `least`. */
static uint32_t read_equal(struct checkpoint_keys *keys, const char *name, struct u32_range range,
                           uint32_t absent)
{
    uint32_t pair[2] = {absent, absent};
    read_pair(keys, name, range.most, pair);
    if (keys->result == RESULT_OK && (pair[0] != pair[1] || pair[0] < range.least))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "key %s is %u and %u, not two equal numbers from %u on", name,
                               pair[0], pair[1], range.least);
    return pair[0];
}

/* A head's first pairs, one for a line and one for a column in turn, and one for each time after them. */
static void read_axes(struct checkpoint_keys *keys, struct model_config *config)
{
    static const char *const places[] = {"rope_parameters", "rope_scaling"};
    uint32_t sections[3] = {22, 22, 20}, count = 0, pairs = config->ropes[0].dims / 2;
    for (size_t i = 0; i < 2 && count == 0 && keys->result == RESULT_OK; i++) {
        struct checkpoint_keys rope = checkpoint_keys_enter(keys, places[i]);
        (void)checkpoint_hf_vision_list(&rope, "mrope_section", ROPE_DIMS_MAX, 3, sections, &count);
        checkpoint_keys_leave(keys, &rope);
    }
    if (keys->result != RESULT_OK)
        return;
    if (count == 0) {
        sections[2] = checkpoint_keys_u32_or(keys, "freq_allocation", (struct u32_range){0, pairs},
                                             pairs < sections[2] ? pairs : sections[2]);
        sections[0] = sections[1] = (pairs - sections[2]) / 2;
    }
    if ((count != 0 && count != 3) || sections[0] != sections[1] ||
        sections[0] + sections[1] + sections[2] != pairs) {
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "mrope_section or freq_allocation does not divide %u pairs into two "
                               "equal sections and a third",
                               pairs);
        return;
    }
    for (uint32_t pair = 0; pair < pairs; pair++)
        config->ropes[0].axis[pair] = (uint8_t)(pair >= 2 * sections[0] ? ROPE_TIME
                                                : pair % 2 == 0         ? ROPE_HEIGHT
                                                                        : ROPE_WIDTH);
}

/* Which layers have experts: a list of words, or all from moe_layer_start_index on. */
static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    struct json_value list = json_value_member(keys->object, "mlp_layer_types"), element;
    uint32_t first =
        read_equal(keys, "moe_layer_start_index", (struct u32_range){0, LIMIT_LAYERS}, 1);
    uint32_t last[2] = {LIMIT_LAYERS, LIMIT_LAYERS}, layer = 0;
    read_pair(keys, "moe_layer_end_index", UINT32_MAX - 1, last);
    (void)read_equal(keys, "moe_layer_interval", (struct u32_range){1, 1}, 1);
    if (keys->result == RESULT_OK && (last[0] + 1 < config->layers || last[1] + 1 < config->layers))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "moe_layer_end_index is before layer %u",
                               config->layers - 1);
    checkpoint_hf_use_experts(config, first);
    if (json_value_type(list) != JSON_ARRAY || keys->result != RESULT_OK)
        return;
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &element);
         layer++) {
        char word[16] = "";
        (void)json_value_string(element, word, sizeof word);
        bool sparse = strcmp(word, "sparse") == 0;
        if (layer < config->layers)
            config->layer[layer].experts = sparse;
        if (!sparse && strcmp(word, "dense") != 0)
            checkpoint_keys_refuse(keys, RESULT_INVALID, "mlp_layer_types has another word");
    }
    if (layer != config->layers)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "mlp_layer_types has %u words for %u layers",
                               layer, config->layers);
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct u32_range counts = {1, LIMIT_EXPERTS};
    uint32_t wide[2] = {1536, 512};
    checkpoint_keys_expect_neutral(keys, "use_bias", 0);
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    read_axes(keys, config);
    read_pair(keys, "moe_intermediate_size", LIMIT_FEED_FORWARD, wide);
    if (keys->result == RESULT_OK && (wide[0] == 0 || wide[1] == 0))
        checkpoint_keys_refuse(keys, RESULT_INVALID, "moe_intermediate_size is 0");
    checkpoint_hf_read_ernie_experts(keys, read_equal(keys, "moe_num_experts", counts, 64), wide[0],
                                     config);
    config->experts.image_feed_forward = wide[1];
    read_layers(keys, config);
}

/* The tokens around images are rows of images to the experts. */
static void read_whole(struct checkpoint_keys *root, struct model_config *config)
{
    const struct u32_range tokens = {0, LIMIT_VOCAB_TOKENS};
    config->experts.image_edges[0] =
        checkpoint_keys_u32_or(root, "image_start_token_id", tokens, IMAGE_START);
    config->experts.image_edges[1] =
        checkpoint_keys_u32_or(root, "image_end_token_id", tokens, IMAGE_END);
}

static void read_tower(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                       struct vision_config *config)
{
    const struct hf_qwen_tower_terms terms = {
        .hidden_key = "hidden_size", .hidden = 1280, .layers = 32, .patch_side = 14};
    const struct f32_range ratios = {1e-3f, 1e3f}, epsilons = {1e-12f, 1e-1f};
    (void)root;
    checkpoint_hf_read_qwen_tower(keys, &terms, config);
    config->activation = checkpoint_vision_activation(keys, "hidden_act", ACTIVATION_GELU_QUICK);
    config->tower.norm_epsilon = checkpoint_keys_f32_or(keys, "rms_norm_eps", epsilons, 1e-6f);
    double wide =
        (double)config->tower.hidden * (double)checkpoint_keys_f32_or(keys, "mlp_ratio", ratios, 4);
    config->tower.feed_forward =
        checkpoint_keys_u32_or(keys, "intermediate_size", (struct u32_range){1, LIMIT_FEED_FORWARD},
                               wide >= 1 && wide <= LIMIT_FEED_FORWARD ? (uint32_t)wide : 1);
    checkpoint_keys_expect_neutral(keys, "temporal_merge_size", 2);
    config->frames = config->vision.frames = 1;
}

static const struct hf_vision_form hf_tower = {
    .naming = {tower_names, checkpoint_hf_qwen_tower_names, towers, ahead},
    .probe = "v.patch_embd.weight",
    .parts = parts,
    .read_config = read_tower,
};

static const struct hf_form hf_ernie4_5_vl_moe = {
    .model_types = model_types,
    .defaults = {.layers = 28,
                 .hidden = 2560,
                 .feed_forward = 12288,
                 .heads = 20,
                 .kv_heads = 4,
                 .vocab_tokens = 103424,
                 .norm_epsilon = 1e-5f,
                 .tied_embeddings = true},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, texts, parts},
    .read_config = read_config,
    .read_whole = read_whole,
    .tying_wholes = wholes,
    .vision = &hf_tower,
};

const struct model_family family_ernie4_5_vl_moe = {
    .architecture = "ernie4_5_vl_moe",
    .hf = &hf_ernie4_5_vl_moe,
    .list_ops = dense_blocks_list_mixture,
    .list_vision_ops = tower_ernie4_5_vl_moe_list_ops,
};
