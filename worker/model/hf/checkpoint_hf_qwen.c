/*
 * Hugging Face checkpoints of Qwen2, Qwen2.5 and the dense Qwen3. Windows are off in every
 * published checkpoint. use_sliding_window turns them on for the layers from max_window_layers on,
 * or for those that layer_types names.
 *
 * Source: transformers, configuration_qwen2.py, configuration_qwen3.py and their modeling files.
 */
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE         10000.0f
#define DEFAULT_WINDOW    4096u
#define DEFAULT_FULL      28u /* layers before the first one with a window */
#define QWEN_VOCABULARY   151936u
#define QWEN_FEED_FORWARD 22016u

static const char *const qwen2_types[] = {"qwen2", NULL};
static const char *const qwen3_types[] = {"qwen3", NULL};
static const char *const prefixes[] = {"model.", NULL};

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    bool slides[LIMIT_LAYERS] = {false};
    uint32_t window = 0;
    if (checkpoint_keys_bool_or(keys, "use_sliding_window", false))
        window = checkpoint_hf_window(keys, config, DEFAULT_WINDOW);
    uint32_t full = checkpoint_keys_u32_or(keys, "max_window_layers",
                                           (struct u32_range){0, UINT32_MAX}, DEFAULT_FULL);
    if (!checkpoint_hf_layer_slides(keys, config, slides))
        for (uint32_t layer = 0; layer < config->layers; layer++)
            slides[layer] = layer >= full;
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = slides[layer] ? window : 0};
}

static const char *const qwen3_own_keys[] = {"attention_bias", NULL};

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    read_layers(keys, config);
}

static void read_qwen3_config(struct checkpoint_keys *keys, struct model_config *config)
{
    read_config(keys, config);
    checkpoint_hf_read_biases(keys, config);
}

const struct hf_form checkpoint_hf_qwen2 = {
    .model_types = qwen2_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = QWEN_FEED_FORWARD,
                 .heads = 32,
                 .kv_heads = 32,
                 .vocab_tokens = QWEN_VOCABULARY,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = read_config,
};

const struct hf_form checkpoint_hf_qwen3 = {
    .model_types = qwen3_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = QWEN_FEED_FORWARD,
                 .heads = 32,
                 .kv_heads = 32,
                 .head_dim = 128,
                 .vocab_tokens = QWEN_VOCABULARY,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = qwen3_own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = read_qwen3_config,
};
