/*
 * What a GGUF of the gemma2 architecture states beyond the shared sizes.
 *
 * Every other layer looks back a sliding window, beginning with the first; all rotate alike. Scores
 * and logits are capped; files of before converters wrote the caps and the window have those of the
 * published models.
 *
 * Scores are scaled by 1/sqrt(head_dim), except in the 27B model, whose scale is
 * 1/sqrt(hidden / heads): its published config says query_pre_attn_scalar 144 = 4608 / 32, and
 * converters do not write that field. It is told by its layer count.
 *
 * Source: Hugging Face transformers, configuration_gemma2.py and modeling_gemma2.py.
 */
#include <math.h>

#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"

#define GEMMA2_ROPE_BASE      10000.0f
#define GEMMA2_WINDOW         4096u
#define GEMMA2_PERIOD         2u
#define GEMMA2_27B_LAYERS     46u
#define GEMMA2_SCORE_SOFT_CAP 50.0f
#define GEMMA2_LOGIT_SOFT_CAP 30.0f

static const char *const own_keys[] = {"attn_logit_softcapping", "final_logit_softcapping", NULL};

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range range = {1, UINT32_MAX}, period_range = {1, LIMIT_LAYERS};
    uint32_t window = checkpoint_useful_window(
        config, checkpoint_keys_u32_or(keys, "attention.sliding_window", range, GEMMA2_WINDOW));
    uint32_t period = checkpoint_keys_u32_or(keys, "attention.sliding_window_pattern", period_range,
                                             GEMMA2_PERIOD);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        config->layer[layer].window = (layer + 1) % period == 0 ? 0 : window;
        config->layer[layer].rope = 0;
    }
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct f32_range cap_range = {0.0f, 1e6f};
    config->embedding_scale = sqrtf((float)config->hidden);
    float scale = config->layers == GEMMA2_27B_LAYERS
                      ? 1.0f / sqrtf((float)(config->hidden / config->heads))
                      : 1.0f / sqrtf((float)config->head_dim);
    config->attention_scale =
        checkpoint_keys_f32_or(keys, "attention.scale", (struct f32_range){1e-6f, 1e3f}, scale);
    config->attention_soft_cap =
        checkpoint_keys_f32_or(keys, "attn_logit_softcapping", cap_range, GEMMA2_SCORE_SOFT_CAP);
    config->logit_soft_cap =
        checkpoint_keys_f32_or(keys, "final_logit_softcapping", cap_range, GEMMA2_LOGIT_SOFT_CAP);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, GEMMA2_ROPE_BASE, &config->ropes[0]);
    read_layers(keys, config);
}

const struct gguf_form checkpoint_gguf_gemma2 = {
    .own_keys = own_keys,
    .read_config = read_config,
};
