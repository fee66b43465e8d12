/*
 * What a GGUF of the gemma3 architecture (text) states beyond the shared sizes.
 *
 * Five layers of six look back a sliding window and rotate with base 10,000; every sixth sees all
 * and rotates with the checkpoint's large base, divided by its linear scaling factor where there is
 * one. The pattern's period may be stated by a key; published files leave it out.
 *
 * Scores are scaled by 1/sqrt(head_dim), except in the 27B model, whose scale is
 * 1/sqrt(hidden / heads): the published config says query_pre_attn_scalar 168 = 5376 / 32 where
 * every other size says its head_dim, and converters do not write that field. It is told by its
 * layer count, as its GGUF has nothing else to tell it by.
 *
 * Source: Hugging Face transformers, configuration_gemma3.py and modeling_gemma3.py.
 */
#include <math.h>

#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"

#define GEMMA3_GLOBAL_ROPE_BASE 1000000.0f
#define GEMMA3_LOCAL_ROPE_BASE  10000.0f
#define GEMMA3_PATTERN_LAYERS   6u
#define GEMMA3_27B_LAYERS       62u

enum { GLOBAL_ROPE, LOCAL_ROPE };

static void read_ropes(struct checkpoint_keys *keys, struct model_config *config)
{
    struct rope_config *global = &config->ropes[GLOBAL_ROPE];
    struct rope_config *local = &config->ropes[LOCAL_ROPE];
    config->rope_count = 2;
    global->pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, GEMMA3_GLOBAL_ROPE_BASE, global);
    float base = checkpoint_keys_f32_or(keys, "rope.freq_base_swa", (struct f32_range){1.0f, 1e12f},
                                        GEMMA3_LOCAL_ROPE_BASE);
    if (keys->result != RESULT_OK)
        return;
    local->pairing = ROPE_PAIRS_HALVES;
    local->dims = global->dims;
    checkpoint_plain_rope(local, base, 1.0f);
}

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t window = checkpoint_gguf_window(keys, config, true);
    uint32_t period =
        checkpoint_keys_u32_or(keys, "attention.sliding_window_pattern",
                               (struct u32_range){1, LIMIT_LAYERS}, GEMMA3_PATTERN_LAYERS);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        bool global = (layer + 1) % period == 0;
        config->layer[layer] = (struct layer_config){
            .window = global ? 0 : window,
            .rope = global ? GLOBAL_ROPE : LOCAL_ROPE,
        };
    }
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->embedding_scale = sqrtf((float)config->hidden);
    float scale = config->layers == GEMMA3_27B_LAYERS
                      ? 1.0f / sqrtf((float)(config->hidden / config->heads))
                      : 1.0f / sqrtf((float)config->head_dim);
    config->attention_scale =
        checkpoint_keys_f32_or(keys, "attention.scale", (struct f32_range){1e-6f, 1e3f}, scale);
    read_ropes(keys, config);
    read_layers(keys, config);
}

const struct gguf_form checkpoint_gguf_gemma3 = {
    .read_config = read_config,
};
