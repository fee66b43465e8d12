/*
 * Hugging Face checkpoints of Ministral 3, as text alone or as the text part of a model that sees:
 * llama with yarn, and queries that grow with the logarithm of their position
 * (llama_4_scaling_beta, per original context).
 *
 * Source: transformers, configuration_ministral3.py and modeling_ministral3.py.
 */
#include <string.h>

#include "proto/must.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

static const char *const model_types[] = {"ministral3", NULL};
static const char *const prefixes[] = {"model.", "language_model.model.", "model.language_model.",
                                       NULL};
static const char *const other_parts[] = {"vision_tower.", "multi_modal_projector.",
                                          "model.vision_tower.", "model.multi_modal_projector.",
                                          NULL};

/* What the class has where config.json leaves rope_parameters out. */
static const char default_rope[] =
    "{\"type\":\"yarn\",\"rope_theta\":1000000.0,\"factor\":16.0,"
    "\"original_max_position_embeddings\":16384,\"beta_fast\":32.0,\"beta_slow\":1.0,"
    "\"mscale_all_dim\":1.0,\"mscale\":1.0,\"llama_4_scaling_beta\":0.1}";

static struct checkpoint_keys enter_rope(struct checkpoint_keys *keys)
{
    struct checkpoint_keys inner = checkpoint_keys_enter(keys, "rope_parameters");
    struct error_text error;
    if (inner.result == RESULT_OK && json_value_type(inner.object) == JSON_ABSENT)
        must(json_value_open(default_rope, strlen(default_rope), sizeof default_rope, &inner.object,
                             &error) == RESULT_OK);
    return inner;
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct hf_rope_terms terms = {.base = 1000000.0f, .head_dim = config->head_dim};
    struct checkpoint_keys rope = enter_rope(keys);
    config->rope_count = 1;
    checkpoint_hf_read_rope_of(&rope, config, &terms, &config->ropes[0]);
    float beta =
        checkpoint_keys_f32_or(&rope, "llama_4_scaling_beta", (struct f32_range){0.0f, 1e3f}, 0.0f);
    uint32_t tokens =
        checkpoint_keys_u32_or(&rope, "original_max_position_embeddings",
                               (struct u32_range){2, LIMIT_CONTEXT_TOKENS}, config->context_tokens);
    checkpoint_keys_leave(keys, &rope);
    config->position_scale_beta = beta;
    config->position_scale_tokens = beta > 0.0f ? tokens : 0;
    uint32_t window = checkpoint_hf_window(keys, config, 0);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = window};
}

const struct hf_form checkpoint_hf_ministral3 = {
    .model_types = model_types,
    .defaults = {.layers = 34,
                 .hidden = 4096,
                 .feed_forward = 14336,
                 .heads = 32,
                 .kv_heads = 8,
                 .head_dim = 128,
                 .vocab_tokens = 131072,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, other_parts},
    .read_config = read_config,
};
