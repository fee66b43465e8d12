/*
 * Hugging Face checkpoints of Gemma 4, text only or the text part of one that sees and hears.
 *
 * head_dim and num_key_value_heads are those of sliding layers; global ones have global_head_dim,
 * and num_global_key_value_heads where attention_k_eq_v says that they have no value matrix. The
 * last num_kv_shared_layers attend over keys of layers before them, and have a feed-forward twice
 * as wide where use_double_wide_mlp says so. Norm weights are stored whole.
 *
 * Source: transformers, configuration_gemma4.py and modeling_gemma4.py.
 *
 * Refuses to do: attention in both directions over text.
 */
#include <math.h>
#include <string.h>

#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/rope_scaling.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

#define GLOBAL_ROPE_BASE   1000000.0f
#define LOCAL_ROPE_BASE    10000.0f
#define GLOBAL_ROPE_PARTS  4u /* of a head, one rotates */
#define DEFAULT_PERIOD     6u
#define DEFAULT_WINDOW     512u
#define DEFAULT_GLOBAL_DIM 512u
#define DEFAULT_PER_LAYER  256u

enum { GLOBAL_ROPE, LOCAL_ROPE };

static const char *const model_types[] = {"gemma4_text", "gemma4", NULL};
static const char *const own_keys[] = {"final_logit_softcapping", "use_bidirectional_attention",
                                       "num_experts", NULL};

static const struct tensor_name names[] = {
    {"per_layer_token_embd.weight", "^embed_tokens_per_layer.weight"},
    {"per_layer_model_proj.weight", "^per_layer_model_projection.weight"},
    {"per_layer_proj_norm.weight", "^per_layer_projection_norm.weight"},
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.ffn_norm.weight", "^layers.*.pre_feedforward_layernorm.weight"},
    {"blk.*.post_ffw_norm.weight", "^layers.*.post_feedforward_layernorm.weight"},
    {"blk.*.post_ffw_norm_1.weight", "^layers.*.post_feedforward_layernorm_1.weight"},
    {"blk.*.pre_ffw_norm_2.weight", "^layers.*.pre_feedforward_layernorm_2.weight"},
    {"blk.*.post_ffw_norm_2.weight", "^layers.*.post_feedforward_layernorm_2.weight"},
    {"blk.*.ffn_gate_inp.weight", "^layers.*.router.proj.weight"},
    {"blk.*.ffn_gate_inp.scale", "^layers.*.router.scale"},
    {"blk.*.ffn_gate_up_exps.weight", "^layers.*.experts.gate_up_proj"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.experts.down_proj"},
    {"blk.*.ffn_down_exps.scale", "^layers.*.router.per_expert_scale"},
    {"blk.*.ffn_gate_exps.weight", "^layers.*.experts.switch_glu.gate_proj.weight"},
    {"blk.*.ffn_up_exps.weight", "^layers.*.experts.switch_glu.up_proj.weight"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.experts.switch_glu.down_proj.weight"},
    {"blk.*.inp_gate.weight", "^layers.*.per_layer_input_gate.weight"},
    {"blk.*.proj.weight", "^layers.*.per_layer_projection.weight"},
    {"blk.*.post_norm.weight", "^layers.*.post_per_layer_input_norm.weight"},
    {"blk.*.layer_output_scale.weight", "^layers.*.layer_scalar"},
    {"rope_freqs.weight", "rope_freqs.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.language_model.", "language_model.model.", "model.",
                                       NULL};
static const char *const other_parts[] = {
    "vision_tower.",       "audio_tower.",        "embed_vision.",
    "embed_audio.",        "model.vision_tower.", "model.audio_tower.",
    "model.embed_vision.", "model.embed_audio.",  NULL};

/* Where rope_parameters says nothing: a quarter of a global head rotates. */
static void default_global_rope(const struct model_config *config, uint32_t head_dim,
                                struct rope_config *rope)
{
    const struct rope_scaling scaling = {.kind = ROPE_KIND_PROPORTIONAL,
                                         .base = GLOBAL_ROPE_BASE,
                                         .dims = head_dim,
                                         .context_tokens = config->context_tokens,
                                         .original_tokens = config->context_tokens,
                                         .factor = 1.0f,
                                         .rotated_pairs = head_dim / GLOBAL_ROPE_PARTS / 2};
    rope->pairing = ROPE_PAIRS_HALVES;
    rope_scaling_apply(&scaling, rope);
}

static void read_ropes(struct checkpoint_keys *keys, struct model_config *config,
                       uint32_t global_dim)
{
    const struct hf_rope_terms global_terms = {
        .base = GLOBAL_ROPE_BASE, .partial = true, .part = 1.0f, .head_dim = global_dim};
    const struct hf_rope_terms local_terms = {
        .base = LOCAL_ROPE_BASE, .partial = true, .part = 1.0f, .head_dim = config->head_dim};
    struct checkpoint_keys parameters = checkpoint_keys_enter(keys, "rope_parameters");
    checkpoint_keys_leave(keys, &parameters);
    struct checkpoint_keys global = checkpoint_keys_enter(&parameters, "full_attention");
    struct checkpoint_keys local = checkpoint_keys_enter(&parameters, "sliding_attention");
    bool stated = json_value_type(parameters.object) != JSON_ABSENT;
    if (stated && (json_value_type(global.object) == JSON_ABSENT ||
                   json_value_type(local.object) == JSON_ABSENT))
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "rope_parameters lacks full_attention or sliding_attention");
    config->rope_count = 2;
    checkpoint_hf_read_rope_of(&local, config, &local_terms, &config->ropes[LOCAL_ROPE]);
    checkpoint_keys_leave(keys, &local);
    if (stated)
        checkpoint_hf_read_rope_of(&global, config, &global_terms, &config->ropes[GLOBAL_ROPE]);
    else if (keys->result == RESULT_OK)
        default_global_rope(config, global_dim, &config->ropes[GLOBAL_ROPE]);
    checkpoint_keys_leave(keys, &global);
}

static void check_direction(struct checkpoint_keys *keys)
{
    struct gguf_string over = checkpoint_keys_string_or_empty(keys, "use_bidirectional_attention");
    if (over.length > 0 && !checkpoint_keys_is(over, "vision"))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "use_bidirectional_attention \"%.*s\"",
                               (int)(over.length < 32 ? over.length : 32), over.bytes);
}

static void read_layers(struct checkpoint_keys *keys, struct model_config *config,
                        uint32_t global_dim)
{
    bool slides[LIMIT_LAYERS];
    uint32_t window = checkpoint_hf_window(keys, config, DEFAULT_WINDOW);
    uint32_t shared = checkpoint_keys_u32_or(keys, "num_kv_shared_layers",
                                             (struct u32_range){0, LIMIT_LAYERS}, 0);
    uint32_t global_kv = checkpoint_keys_u32_or(keys, "num_global_key_value_heads",
                                                (struct u32_range){1, LIMIT_HEADS}, 0);
    bool alike = checkpoint_keys_bool_or(keys, "attention_k_eq_v", false);
    bool double_wide = checkpoint_keys_bool_or(keys, "use_double_wide_mlp", false);
    if (keys->result == RESULT_OK && alike && global_kv > 0 && config->heads % global_kv != 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "%u attention heads do not share %u global key-value heads evenly",
                               config->heads, global_kv);
    if (keys->result == RESULT_OK && double_wide && config->feed_forward > LIMIT_FEED_FORWARD / 2)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "twice intermediate_size %u is more than %u",
                               config->feed_forward, LIMIT_FEED_FORWARD);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        slides[layer] = (layer + 1) % DEFAULT_PERIOD != 0;
    (void)checkpoint_hf_layer_slides(keys, config, slides);
    if (keys->result != RESULT_OK)
        return;
    slides[config->layers - 1] = false; /* whatever the list says */
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        struct layer_config *l = &config->layer[layer];
        l->rope = slides[layer] ? LOCAL_ROPE : GLOBAL_ROPE;
        l->window = slides[layer] ? window : 0;
        l->head_dim = slides[layer] ? 0 : global_dim;
        l->kv_heads = !slides[layer] && alike ? global_kv : 0;
        l->values_are_keys = !slides[layer] && alike;
        l->causal = !slides[layer];
        if (double_wide && layer + shared >= config->layers)
            l->feed_forward = 2 * config->feed_forward;
    }
    checkpoint_share_caches(keys, config, shared);
}

static void read_experts(struct checkpoint_keys *keys, struct model_config *config)
{
    if (!checkpoint_keys_bool_or(keys, "enable_moe_block", false))
        return;
    config->experts = (struct expert_config){
        .count = checkpoint_keys_u32(keys, "num_experts", (struct u32_range){1, LIMIT_EXPERTS}),
        .chosen =
            checkpoint_keys_u32(keys, "top_k_experts", (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}),
        .feed_forward = checkpoint_keys_u32(keys, "moe_intermediate_size",
                                            (struct u32_range){1, LIMIT_FEED_FORWARD}),
        .normalized = true,
    };
    checkpoint_settle_experts(keys, config);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].experts = true;
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range dims = {2, LIMIT_HEAD_DIM};
    uint32_t global_dim = checkpoint_keys_u32_or(keys, "global_head_dim", dims, DEFAULT_GLOBAL_DIM);
    if (keys->result == RESULT_OK && global_dim % 2 != 0)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "global_head_dim %u is odd", global_dim);
    check_direction(keys);
    config->embedding_scale = sqrtf((float)config->hidden);
    config->attention_scale = 1.0f;
    config->logit_soft_cap = checkpoint_keys_f32_or(keys, "final_logit_softcapping",
                                                    (struct f32_range){0.0f, 1e6f}, 0.0f);
    checkpoint_hf_read_per_layer(keys, 0, DEFAULT_PER_LAYER, config->vocab_tokens, config);
    read_ropes(keys, config, global_dim);
    read_layers(keys, config, global_dim);
    read_experts(keys, config);
}

/* Rows of pictures have the padding token's row of the second embedding. */
static void read_whole(struct checkpoint_keys *root, struct model_config *config)
{
    bool sees = json_value_type(json_value_member(root->object, "vision_config")) == JSON_OBJECT;
    if (!sees || config->per_layer_columns == 0)
        return;
    struct checkpoint_keys text = checkpoint_keys_enter(root, "text_config");
    config->picture_token = checkpoint_keys_u32_or(
        &text, "pad_token_id", (struct u32_range){0, config->vocab_tokens - 1}, 0);
    checkpoint_keys_leave(root, &text);
}

const struct hf_form checkpoint_hf_gemma4 = {
    .model_types = model_types,
    .defaults = {.layers = 30,
                 .hidden = 2304,
                 .feed_forward = 9216,
                 .heads = 8,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .vocab_tokens = 262144,
                 .norm_epsilon = 1e-6f,
                 .tied_embeddings = true},
    .activation_key = "hidden_activation",
    .activation = "gelu_pytorch_tanh",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, other_parts},
    .read_config = read_config,
    .read_whole = read_whole,
    .vision = &checkpoint_hf_gemma4_tower,
};
