/*
 * Hugging Face checkpoints of Gemma 3, text only or the text part of one that sees.
 *
 * Norm weights are stored without the 1 that is added to them. Which layers look at all positions
 * is stated by layer_types, or by the period of the pattern in older configs; rotary embeddings by
 * rope_parameters with an object for each kind of layer, or by rope_theta and rope_scaling for
 * global layers beside rope_local_base_freq for the others.
 *
 * Source: transformers, configuration_gemma3.py and modeling_gemma3.py.
 */
#include <math.h>

#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

#define GLOBAL_ROPE_BASE     1000000.0f
#define LOCAL_ROPE_BASE      10000.0f
#define DEFAULT_QUERY_SCALAR 256.0f

enum { GLOBAL_ROPE, LOCAL_ROPE };

static const struct hf_layer_pattern layer_pattern = {
    .window = 4096, .period = 6, .global_rope = GLOBAL_ROPE, .window_rope = LOCAL_ROPE};

static const char *const model_types[] = {"gemma3_text", "gemma3", NULL};

static const struct tensor_name names[] = {
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.ffn_norm.weight", "^layers.*.pre_feedforward_layernorm.weight"},
    {"blk.*.post_ffw_norm.weight", "^layers.*.post_feedforward_layernorm.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", "language_model.model.", "model.language_model.",
                                       NULL};
static const char *const other_parts[] = {"vision_tower.", "multi_modal_projector.",
                                          "model.vision_tower.", "model.multi_modal_projector.",
                                          NULL};

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
    if (stated && (json_value_type(global.object) == JSON_ABSENT ||
                   json_value_type(local.object) == JSON_ABSENT))
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "rope_parameters lacks full_attention or sliding_attention");
    config->rope_count = 2;
    checkpoint_hf_read_rope(&global, config, global_base, &config->ropes[GLOBAL_ROPE]);
    checkpoint_keys_leave(keys, &global);
    checkpoint_hf_read_rope(&local, config, local_base, &config->ropes[LOCAL_ROPE]);
    checkpoint_keys_leave(keys, &local);
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->embedding_scale = sqrtf((float)config->hidden);
    config->norm_weight_offset = 1.0f;
    config->attention_scale =
        1.0f / sqrtf(checkpoint_keys_f32_or(keys, "query_pre_attn_scalar",
                                            (struct f32_range){1e-3f, 1e6f}, DEFAULT_QUERY_SCALAR));
    read_ropes(keys, config);
    checkpoint_hf_read_layers(keys, &layer_pattern, config);
}

const struct hf_form checkpoint_hf_gemma3 = {
    .model_types = model_types,
    .defaults = {.layers = 26,
                 .hidden = 2304,
                 .feed_forward = 9216,
                 .heads = 8,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .vocab_tokens = 262208,
                 .norm_epsilon = 1e-6f,
                 .tied_embeddings = true},
    .activation_key = "hidden_activation",
    .activation = "gelu_pytorch_tanh",
    .naming = {names, checkpoint_hf_usual_names, prefixes, other_parts},
    .read_config = read_config,
    .vision = &checkpoint_hf_gemma3_tower,
};
