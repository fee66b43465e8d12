/*
 * Hugging Face checkpoints of Gemma 3n, text only or the text part of one that sees and hears.
 *
 * activation_sparsity_pattern says for each layer which part of its gates is cut off; gates count
 * as normally distributed, so a part becomes a number of deviations. altup_coef_clip is for
 * training. Norm weights are stored whole.
 *
 * Source: transformers, configuration_gemma3n.py and modeling_gemma3n.py.
 *
 * Refuses to do: an active stream other than the first.
 */
#include <math.h>

#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define GLOBAL_ROPE_BASE  1000000.0f
#define LOCAL_ROPE_BASE   10000.0f
#define DEFAULT_PERIOD    5u
#define DEFAULT_WINDOW    512u
#define DEFAULT_SHARED    15u
#define DEFAULT_PER_LAYER 256u
#define DEFAULT_TABLE     262144u
#define DEFAULT_RANK      64u
#define DEFAULT_CUTS      10u   /* layers, of a model that has more */
#define DEFAULT_CUT       0.95f /* of their gates */
#define DEFAULT_SOFT_CAP  30.0f
#define BISECTIONS        80u

enum { GLOBAL_ROPE, LOCAL_ROPE };

static const char *const model_types[] = {"gemma3n_text", "gemma3n", NULL};
static const char *const own_keys[] = {"final_logit_softcapping", NULL};

static const struct tensor_name names[] = {
    {"per_layer_token_embd.weight", "^embed_tokens_per_layer.weight"},
    {"per_layer_model_proj.weight", "^per_layer_model_projection.weight"},
    {"per_layer_proj_norm.weight", "^per_layer_projection_norm.weight"},
    {"altup_proj.*.weight", "^altup_projections.*.weight"},
    {"altup_unembd_proj.*.weight", "^altup_unembed_projections.*.weight"},
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.ffn_norm.weight", "^layers.*.pre_feedforward_layernorm.weight"},
    {"blk.*.post_ffw_norm.weight", "^layers.*.post_feedforward_layernorm.weight"},
    {"blk.*.inp_gate.weight", "^layers.*.per_layer_input_gate.weight"},
    {"blk.*.proj.weight", "^layers.*.per_layer_projection.weight"},
    {"blk.*.post_norm.weight", "^layers.*.post_per_layer_input_norm.weight"},
    {"blk.*.altup_correct_coef.weight", "^layers.*.altup.correction_coefs.weight"},
    {"blk.*.altup_correct_scale.weight", "^layers.*.altup.correct_output_scale"},
    {"blk.*.altup_predict_coef.weight", "^layers.*.altup.prediction_coefs.weight"},
    {"blk.*.altup_router.weight", "^layers.*.altup.modality_router.weight"},
    {"blk.*.altup_router_norm.weight", "^layers.*.altup.router_norm.weight"},
    {"blk.*.laurel_l.weight", "^layers.*.laurel.linear_left.weight"},
    {"blk.*.laurel_r.weight", "^layers.*.laurel.linear_right.weight"},
    {"blk.*.laurel_post_norm.weight", "^layers.*.laurel.post_laurel_norm.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.language_model.", "language_model.model.", "model.",
                                       NULL};
static const char *const other_parts[] = {
    "vision_tower.",       "audio_tower.",        "embed_vision.",
    "embed_audio.",        "model.vision_tower.", "model.audio_tower.",
    "model.embed_vision.", "model.embed_audio.",  NULL};

static void read_ropes(struct checkpoint_keys *keys, struct model_config *config)
{
    struct f32_range range = {1.0f, 1e12f};
    float global_base = checkpoint_keys_f32_or(keys, "rope_theta", range, GLOBAL_ROPE_BASE);
    float local_base = checkpoint_keys_f32_or(keys, "rope_local_base_freq", range, LOCAL_ROPE_BASE);
    struct checkpoint_keys parameters = checkpoint_keys_enter(keys, "rope_parameters");
    checkpoint_keys_leave(keys, &parameters);
    bool stated = json_value_type(parameters.object) != JSON_ABSENT;
    struct checkpoint_keys global = stated ? checkpoint_keys_enter(&parameters, "full_attention")
                                           : checkpoint_keys_enter(keys, "rope_scaling");
    struct checkpoint_keys local = checkpoint_keys_enter(&parameters, "sliding_attention");
    config->rope_count = 2;
    checkpoint_hf_read_rope(&global, config, global_base, &config->ropes[GLOBAL_ROPE]);
    checkpoint_keys_leave(keys, &global);
    checkpoint_hf_read_rope(&local, config, local_base, &config->ropes[LOCAL_ROPE]);
    checkpoint_keys_leave(keys, &local);
}

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    bool slides[LIMIT_LAYERS];
    uint32_t window = checkpoint_hf_window(keys, config, DEFAULT_WINDOW);
    uint32_t shared = checkpoint_keys_u32_or(keys, "num_kv_shared_layers",
                                             (struct u32_range){0, LIMIT_LAYERS}, DEFAULT_SHARED);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        slides[layer] = (layer + 1) % DEFAULT_PERIOD != 0;
    (void)checkpoint_hf_layer_slides(keys, config, slides);
    if (keys->result != RESULT_OK)
        return;
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        config->layer[layer].rope = slides[layer] ? LOCAL_ROPE : GLOBAL_ROPE;
        config->layer[layer].window = slides[layer] ? window : 0;
    }
    checkpoint_share_caches(keys, config, shared);
}

/* How many deviations above the mean of a normal distribution `part` of it lies below. */
static float deviations_of(float part)
{
    double low = -40.0, high = 40.0;
    for (uint32_t i = 0; i < BISECTIONS; i++) {
        double middle = (low + high) / 2.0;
        if (0.5 * erfc(-middle / sqrt(2.0)) < (double)part)
            low = middle;
        else
            high = middle;
    }
    return (float)high;
}

static void set_cut(struct checkpoint_keys *keys, struct model_config *config, uint32_t layer,
                    float part)
{
    if (!(part >= 0.0f && part < 1.0f))
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "activation_sparsity_pattern: element %u is %g, not below 1", layer,
                               (double)part);
    else if (layer < config->layers && part > 0.0f) {
        config->layer[layer].cuts = true;
        config->layer[layer].cut_deviations = deviations_of(part);
    }
}

static void read_cuts(struct checkpoint_keys *keys, struct model_config *config)
{
    struct json_value list = json_value_member(keys->object, "activation_sparsity_pattern"), part;
    uint32_t count = 0;
    if (keys->result != RESULT_OK)
        return;
    if (json_value_type(list) == JSON_ABSENT) {
        for (; config->layers > DEFAULT_CUTS && count < DEFAULT_CUTS; count++)
            set_cut(keys, config, count, DEFAULT_CUT);
        return;
    }
    if (json_value_type(list) != JSON_ARRAY)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "key activation_sparsity_pattern is not an array");
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &part); count++) {
        float value = -1.0f;
        (void)json_value_f32(part, &value); /* what is no number stays out of range */
        set_cut(keys, config, count, value);
    }
    if (count != config->layers)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "activation_sparsity_pattern has %u elements for %u layers", count,
                               config->layers);
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->embedding_scale = sqrtf((float)config->hidden);
    config->attention_scale = 1.0f;
    config->logit_soft_cap = checkpoint_keys_f32_or(
        keys, "final_logit_softcapping", (struct f32_range){0.0f, 1e6f}, DEFAULT_SOFT_CAP);
    config->streams = checkpoint_keys_u32_or(keys, "altup_num_inputs", (struct u32_range){2, 4}, 4);
    checkpoint_keys_expect_neutral(keys, "altup_active_idx", 0);
    config->scale_corrected = checkpoint_keys_bool_or(keys, "altup_correct_scale", true);
    config->laurel_rank = checkpoint_keys_u32_or(keys, "laurel_rank",
                                                 (struct u32_range){1, LIMIT_HIDDEN}, DEFAULT_RANK);
    checkpoint_hf_read_per_layer(keys, 1, DEFAULT_PER_LAYER, DEFAULT_TABLE, config);
    read_ropes(keys, config);
    read_layers(keys, config);
    read_cuts(keys, config);
}

const struct hf_form checkpoint_hf_gemma3n = {
    .model_types = model_types,
    .defaults = {.layers = 35,
                 .hidden = 2048,
                 .feed_forward = 16384,
                 .heads = 8,
                 .kv_heads = 2,
                 .head_dim = 256,
                 .vocab_tokens = 262400,
                 .norm_epsilon = 1e-6f,
                 .tied_embeddings = true},
    .activation_key = "hidden_activation",
    .activation = "gelu_pytorch_tanh",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, other_parts},
    .read_config = read_config,
};
