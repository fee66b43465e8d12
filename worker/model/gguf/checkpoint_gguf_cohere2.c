/*
 * What a GGUF of the cohere2 architecture states beyond the shared sizes.
 *
 * Three layers of four look back a sliding window and rotate, in adjacent pairs; every fourth sees
 * all positions and does not rotate. The pattern's period may be stated by a key; published files
 * leave it out.
 *
 * Source: Hugging Face transformers, configuration_cohere2.py and modeling_cohere2.py.
 */
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"

#define COHERE2_ROPE_BASE 10000.0f
#define COHERE2_PERIOD    4u

static const char *const own_keys[] = {"logit_scale", NULL};

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t window = checkpoint_gguf_window(keys, config, true);
    uint32_t period = checkpoint_keys_u32_or(keys, "attention.sliding_window_pattern",
                                             (struct u32_range){1, LIMIT_LAYERS}, COHERE2_PERIOD);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        bool global = (layer + 1) % period == 0;
        config->layer[layer] = (struct layer_config){
            .window = global ? 0 : window,
            .rope = global ? ROPE_NONE : 0,
        };
    }
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->logit_scale = checkpoint_keys_f32(keys, "logit_scale", (struct f32_range){1e-6f, 1e3f});
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, COHERE2_ROPE_BASE, &config->ropes[0]);
    read_layers(keys, config);
}

const struct gguf_form checkpoint_gguf_cohere2 = {
    .epsilon_key = "attention.layer_norm_epsilon",
    .own_keys = own_keys,
    .read_config = read_config,
};
