/*
 * Hugging Face checkpoints of Gemma 2.
 *
 * Norm weights are stored without the 1 that is added to them. Both soft caps have defaults, so a
 * config that leaves one out caps, and one that says null does not.
 *
 * Source: transformers, configuration_gemma2.py and modeling_gemma2.py.
 */
#include <math.h>

#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define DEFAULT_SCORE_SOFT_CAP 50.0f
#define DEFAULT_LOGIT_SOFT_CAP 30.0f
#define DEFAULT_QUERY_SCALAR   256.0f

static const char *const model_types[] = {"gemma2", NULL};
static const char *const own_keys[] = {"attn_logit_softcapping", "final_logit_softcapping", NULL};
static const struct hf_layer_pattern layer_pattern = {.window = 4096, .period = 2};
static const struct hf_rope_terms rope_terms = {.base = 10000.0f};

static const struct tensor_name names[] = {
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {"blk.*.ffn_norm.weight", "^layers.*.pre_feedforward_layernorm.weight"},
    {"blk.*.post_ffw_norm.weight", "^layers.*.post_feedforward_layernorm.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", NULL};

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct f32_range cap_range = {1e-3f, 1e6f}, scalar_range = {1e-3f, 1e6f};
    config->embedding_scale = sqrtf((float)config->hidden);
    config->norm_weight_offset = 1.0f;
    config->attention_scale =
        1.0f / sqrtf(checkpoint_keys_f32_or(keys, "query_pre_attn_scalar", scalar_range,
                                            DEFAULT_QUERY_SCALAR));
    config->attention_soft_cap = checkpoint_keys_f32_or_null(keys, "attn_logit_softcapping",
                                                             cap_range, DEFAULT_SCORE_SOFT_CAP);
    config->logit_soft_cap = checkpoint_keys_f32_or_null(keys, "final_logit_softcapping", cap_range,
                                                         DEFAULT_LOGIT_SOFT_CAP);
    checkpoint_hf_read_only_rope(keys, config, &rope_terms);
    checkpoint_hf_read_layers(keys, &layer_pattern, config);
}

const struct hf_form checkpoint_hf_gemma2 = {
    .model_types = model_types,
    .defaults = {.layers = 26,
                 .hidden = 2304,
                 .feed_forward = 9216,
                 .heads = 8,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .vocab_tokens = 256000,
                 .norm_epsilon = 1e-6f,
                 .tied_embeddings = true},
    .activation_key = "hidden_activation",
    .activation = "gelu_pytorch_tanh",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = read_config,
};
