/*
 * What a GGUF of the lfm2 architecture states beyond the shared sizes: one rotary embedding, how
 * many inputs a convolution sees, and which layers attend. The latter is in the number of key-value
 * heads, which is a list with a 0 for every layer that convolves.
 *
 * Source: llama.cpp, conversion/lfm2.py and src/models/lfm2.cpp.
 */
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"

#define LFM2_ROPE_BASE 1000000.0f

static const char *const own_keys[] = {"attention.head_count_kv", NULL};

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        uint32_t heads = checkpoint_keys_u32_at(keys, "attention.head_count_kv", layer,
                                                (struct u32_range){0, LIMIT_HEADS});
        bool attends = heads > 0;
        config->layer[layer] =
            (struct layer_config){.kind = attends ? LAYER_ATTENTION : LAYER_SHORT_CONV};
        if (attends && config->kv_heads == 0)
            config->kv_heads = heads;
        if (attends && config->kv_heads != heads)
            checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                                   "attention.head_count_kv: layer %u has %u heads, an earlier one "
                                   "%u",
                                   layer, heads, config->kv_heads);
    }
    if (keys->result == RESULT_OK && config->kv_heads == 0)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "attention.head_count_kv: no layer attends");
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, LFM2_ROPE_BASE, &config->ropes[0]);
    config->conv_taps =
        checkpoint_keys_u32(keys, "shortconv.l_cache", (struct u32_range){2, LIMIT_CONV_TAPS});
    config->conv_channels = config->hidden;
    config->kv_heads = 0;
    read_layers(keys, config);
    if (keys->result == RESULT_OK)
        checkpoint_settle_heads(keys, config);
}

const struct gguf_form checkpoint_gguf_lfm2 = {
    .own_keys = own_keys,
    .read_config = read_config,
};
