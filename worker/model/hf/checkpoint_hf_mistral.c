/*
 * Hugging Face checkpoints of Mistral: llama with one window over all layers, which is the class's
 * default of 4096 where config.json says nothing and none where it says null.
 *
 * Source: transformers, configuration_mistral.py and modeling_mistral.py.
 */
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE      10000.0f
#define DEFAULT_WINDOW 4096u

static const char *const model_types[] = {"mistral", NULL};
static const char *const prefixes[] = {"model.", "language_model.model.", "model.language_model.",
                                       NULL};
static const char *const other_parts[] = {"vision_tower.", "multi_modal_projector.",
                                          "model.vision_tower.", "model.multi_modal_projector.",
                                          NULL};

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    uint32_t window = checkpoint_hf_window(keys, config, DEFAULT_WINDOW);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = window};
}

const struct hf_form checkpoint_hf_mistral = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 14336,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocab_tokens = 32000,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, other_parts},
    .read_config = read_config,
};
