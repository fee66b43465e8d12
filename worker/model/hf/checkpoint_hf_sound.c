/*
 * Source: transformers, configuration_whisper.py and configuration_qwen2_audio.py, which have the same keys.
 */
#include "worker/model/hf/checkpoint_hf_sound.h"

#include "worker/model/checkpoint/checkpoint_vision.h"

#define NORM_EPSILON 1e-5f /* torch's, which the classes do not state */

void checkpoint_hf_sound_sizes(struct checkpoint_keys *keys,
                               const struct hf_sound_defaults *defaults,
                               struct vision_config *config)
{
    const struct vision_terms terms = {.hidden_key = "d_model",
                                       .layers_key = "encoder_layers",
                                       .heads_key = "encoder_attention_heads",
                                       .activation_key = "activation_function",
                                       .activation = "gelu",
                                       .hidden = defaults->hidden,
                                       .layers = defaults->layers,
                                       .heads = defaults->heads,
                                       .patch_side = 1,
                                       .norm_epsilon = NORM_EPSILON};
    checkpoint_vision_sizes(keys, &terms, config);
    config->tower.feed_forward = checkpoint_keys_u32_or(
        keys, "encoder_ffn_dim", (struct u32_range){1, LIMIT_FEED_FORWARD}, defaults->feed_forward);
    config->vision.mels = checkpoint_keys_u32_or(
        keys, "num_mel_bins", (struct u32_range){1, LIMIT_AUDIO_MELS}, defaults->mels);
}
