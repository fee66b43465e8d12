/*
 * Whisper's encoder in Hugging Face folders, as sound_blocks.h lists it: its tensor names and its keys.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_SOUND_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_SOUND_H

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/vision_config.h"

/* Rows of a naming whose prefix is the encoder's. */
#define CHECKPOINT_HF_SOUND_NAMES                                                                  \
    {"a.conv1d.1.weight", "^conv1.weight"}, {"a.conv1d.1.bias", "^conv1.bias"},                    \
        {"a.conv1d.2.weight", "^conv2.weight"}, {"a.conv1d.2.bias", "^conv2.bias"},                \
        {"v.position_embd.weight", "^embed_positions.weight"},                                     \
        {"v.blk.*.ln1.weight", "^layers.*.self_attn_layer_norm.weight"},                           \
        {"v.blk.*.ln1.bias", "^layers.*.self_attn_layer_norm.bias"},                               \
        {"v.blk.*.attn_q.weight", "^layers.*.self_attn.q_proj.weight"},                            \
        {"v.blk.*.attn_q.bias", "^layers.*.self_attn.q_proj.bias"},                                \
        {"v.blk.*.attn_k.weight", "^layers.*.self_attn.k_proj.weight"},                            \
        {"v.blk.*.attn_v.weight", "^layers.*.self_attn.v_proj.weight"},                            \
        {"v.blk.*.attn_v.bias", "^layers.*.self_attn.v_proj.bias"},                                \
        {"v.blk.*.attn_out.weight", "^layers.*.self_attn.out_proj.weight"},                        \
        {"v.blk.*.attn_out.bias", "^layers.*.self_attn.out_proj.bias"},                            \
        {"v.blk.*.ln2.weight", "^layers.*.final_layer_norm.weight"},                               \
        {"v.blk.*.ln2.bias", "^layers.*.final_layer_norm.bias"},                                   \
        {"v.blk.*.ffn_up.weight", "^layers.*.fc1.weight"},                                         \
        {"v.blk.*.ffn_up.bias", "^layers.*.fc1.bias"},                                             \
        {"v.blk.*.ffn_down.weight", "^layers.*.fc2.weight"},                                       \
        {"v.blk.*.ffn_down.bias", "^layers.*.fc2.bias"},                                           \
        {"v.post_ln.weight", "^layer_norm.weight"},                                                \
    {                                                                                              \
        "v.post_ln.bias", "^layer_norm.bias"                                                       \
    }

struct hf_sound_defaults {
    uint32_t hidden;
    uint32_t layers;
    uint32_t heads;
    uint32_t feed_forward;
    uint32_t mels;
};
/* Reads the sizes but those of positions; the activation must be gelu. */
void checkpoint_hf_sound_sizes(struct checkpoint_keys *keys,
                               const struct hf_sound_defaults *defaults,
                               struct vision_config *config);

#endif
