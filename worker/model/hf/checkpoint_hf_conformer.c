/*
 * Source: transformers, configuration_gemma4.py and configuration_gemma3n.py.
 */
#include "worker/model/hf/checkpoint_hf_conformer.h"

#include <math.h>

#include "worker/model/checkpoint/checkpoint_vision.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

#define CHANNELS_MOST 4096u
#define NO_CLIPPING   1e10f /* the class's default, which nothing reaches */

static void read_channels(struct checkpoint_keys *keys, const char *name, uint32_t channels[2])
{
    uint32_t count = 0;
    channels[0] = 128;
    channels[1] = 32;
    if (checkpoint_hf_vision_list(keys, name, CHANNELS_MOST + 1, 2, channels, &count) &&
        keys->result == RESULT_OK && (count != 2 || channels[0] == 0 || channels[1] == 0))
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s is no pair of channels", name);
}

static void read_clipping(struct checkpoint_keys *keys, struct conformer_config *own)
{
    own->clipping = checkpoint_keys_f32_or(keys, "gradient_clipping",
                                           (struct f32_range){1e-3f, 1e38f}, NO_CLIPPING);
    if (own->clipping >= NO_CLIPPING)
        own->clipping = 0.0f;
}

struct conformer_context checkpoint_hf_conformer(struct checkpoint_keys *keys,
                                                 const struct conformer_terms *terms,
                                                 struct vision_config *config)
{
    struct conformer_config *own = &config->conformer;
    struct conformer_context context = {0};
    const struct u32_range rows = {1, LIMIT_AUDIO_NEAR + 1};
    const struct vision_terms sizes = {
        .hidden_key = "hidden_size",
        .layers_key = terms->layers,
        .heads_key = terms->heads,
        .activation_key = "hidden_act",
        .activation = "silu",
        .hidden = terms->hidden_size,
        .layers = 12,
        .heads = 8,
        .patch_side = 1,
        .norm_epsilon =
            checkpoint_keys_f32_or(keys, "rms_norm_eps", (struct f32_range){1e-12f, 1e-1f}, 1e-6f)};
    checkpoint_vision_sizes(keys, &sizes, config);
    read_channels(keys, terms->channels, own->channels);
    read_clipping(keys, own);
    checkpoint_keys_expect_neutral(keys, terms->right, 0);
    own->taps =
        checkpoint_keys_u32_or(keys, terms->taps, (struct u32_range){1, LIMIT_CONVOLUTION_TAPS}, 5);
    context.chunk = checkpoint_keys_u32_or(keys, terms->chunk, (struct u32_range){1, 4096}, 12);
    context.left = checkpoint_keys_u32_or(keys, terms->left, rows, 13);
    own->soft_cap =
        checkpoint_keys_f32_or(keys, terms->soft_cap, (struct f32_range){1e-3f, 1e6f}, 50.0f);
    own->residual_weight =
        checkpoint_keys_f32_or(keys, terms->residual_weight, (struct f32_range){1e-6f, 1e3f}, 0.5f);
    if (keys->result == RESULT_OK && config->tower.hidden % 2 != 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "hidden_size %u is odd", config->tower.hidden);
    if (keys->result != RESULT_OK)
        return context;
    own->query_scale = (float)(1.0 / sqrt((double)config->tower.head_dim) / log(2.0));
    own->key_scale = 1.0f;
    config->tower.feed_forward = config->tower.hidden; /* of no use to these towers */
    config->vision.sound_step = 4;
    config->vision.sound_ends = true;
    return context;
}

void checkpoint_hf_modality_tokens(struct checkpoint_keys *keys,
                                   const struct modality_tokens *absent,
                                   struct modality_tokens *tokens)
{
    const struct u32_range rows = {1, LIMIT_MODALITY_TOKENS}, columns = {1, LIMIT_HIDDEN};
    tokens->first = checkpoint_keys_u32_or(
        keys, "vocab_offset", (struct u32_range){0, LIMIT_VOCAB_TOKENS}, absent->first);
    tokens->rows = checkpoint_keys_u32_or(keys, "vocab_size", rows, absent->rows);
    tokens->columns = checkpoint_keys_u32_or(keys, "hidden_size", columns, absent->columns);
    tokens->epsilon = checkpoint_keys_f32_or(keys, "rms_norm_eps",
                                             (struct f32_range){1e-12f, 1e-1f}, absent->epsilon);
}
