/*
 * SmolLM3: llama in which every fourth layer does not rotate queries and keys.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE 2000000.0f
#define PERIOD    4u

static bool rotates_by_period(uint32_t layer, uint32_t period)
{
    return (layer + 1) % period != 0;
}

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the smollm3 architecture, beyond the sizes that all families have: one rotary
 * embedding over adjacent pairs, because rows are permuted as in llama. No key states the layers
 * that do not rotate; they are those of the published model.
 */
static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_gguf_read_biases(keys, config);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].rope = rotates_by_period(layer, PERIOD) ? 0 : ROPE_NONE;
}

static const struct gguf_form gguf_smollm3 = {
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of SmolLM3. no_rope_layers has 1 for a layer that rotates; if it is
 * absent, one layer of no_rope_layer_interval does not. With use_sliding_window, the layers that
 * layer_types names have a window; by default those that do not rotate.
 *
 * Source: transformers, configuration_smollm3.py and modeling_smollm3.py.
 */
static const char *const model_types[] = {"smollm3", NULL};
static const char *const own_keys[] = {"attention_bias", "mlp_bias", NULL};
static const char *const prefixes[] = {"model.", NULL};

static void hf_read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t rotates[LIMIT_LAYERS];
    bool slides[LIMIT_LAYERS];
    uint32_t period = checkpoint_keys_u32_or(keys, "no_rope_layer_interval",
                                             (struct u32_range){1, LIMIT_LAYERS}, PERIOD);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        rotates[layer] = rotates_by_period(layer, period);
    (void)checkpoint_keys_u32_each(keys, "no_rope_layers", (struct u32_range){0, 1}, config->layers,
                                   rotates);
    bool windows = checkpoint_keys_bool_or(keys, "use_sliding_window", false);
    uint32_t window = windows ? checkpoint_hf_window(keys, config, 0) : 0;
    bool listed = checkpoint_hf_layer_slides(keys, config, slides);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        bool slides_here = listed ? slides[layer] : rotates[layer] == 0;
        config->layer[layer].rope = rotates[layer] ? 0 : ROPE_NONE;
        config->layer[layer].window = slides_here ? window : 0;
    }
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    checkpoint_hf_read_biases(keys, config);
    config->feed_forward_bias = checkpoint_keys_bool_or(keys, "mlp_bias", false);
    hf_read_layers(keys, config);
}

static const struct hf_form hf_smollm3 = {
    .model_types = model_types,
    .defaults = {.layers = 36,
                 .hidden = 2048,
                 .feed_forward = 11008,
                 .heads = 16,
                 .kv_heads = 4,
                 .vocab_tokens = 128256,
                 .norm_epsilon = 1e-6f,
                 .tied_embeddings = true},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- row -------------------------------------------------------------------------------------- */

const struct model_family family_smollm3 = {
    .architecture = "smollm3",
    .gguf = &gguf_smollm3,
    .hf = &hf_smollm3,
    .list_ops = dense_blocks_list_plain,
};
