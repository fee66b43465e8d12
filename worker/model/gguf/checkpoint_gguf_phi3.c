/*
 * What a GGUF of the phi3 architecture states beyond the shared sizes: one rotary embedding over
 * halves of a head or of its first part, longrope as two tensors of divisors, and perhaps a window
 * over all layers.
 */
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"

#define PHI3_ROPE_BASE 10000.0f

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, PHI3_ROPE_BASE, &config->ropes[0]);
    uint32_t window = checkpoint_gguf_window(keys, config, false);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = window};
}

const struct gguf_form checkpoint_gguf_phi3 = {
    .read_config = read_config,
};
