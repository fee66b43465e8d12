/*
 * Qwen's towers share their tensor names and most of their form since Qwen2-VL.
 *
 * Source: transformers, configuration_qwen2_vl.py and its siblings; mlx-vlm for names.
 */
#include "worker/model/hf/checkpoint_hf_qwen_tower.h"

#define TOWER_EPSILON 1e-6f
#define TOWER_HEADS   16u
#define AXIAL_BASE    10000.0f

const char *const checkpoint_hf_qwen_towers[] = {"model.visual.", "visual.", "vision_tower.", NULL};
const char *const checkpoint_hf_omni_towers[] = {"thinker.visual.", "model.visual.", "visual.",
                                                 NULL};
const char *const checkpoint_hf_omni_texts[] = {"thinker.model.", "model.language_model.", "model.",
                                                NULL};
const char *const checkpoint_hf_omni_parts[] = {"thinker.visual.", "thinker.audio_tower.",
                                                "model.visual.",   "model.audio_tower.",
                                                "visual.",         "audio_tower.",
                                                "talker.",         "token2wav.",
                                                "code2wav.",       NULL};
const char *const checkpoint_hf_qwen_texts[] = {"model.language_model.", "language_model.model.",
                                                "model.", NULL};

const struct tensor_name checkpoint_hf_qwen_tower_names[] = {
    {"v.patch_embd.weight", "^patch_embed.proj.weight"},
    {"v.patch_embd.bias", "^patch_embed.proj.bias"},
    {"v.blk.*.ln1.weight", "^blocks.*.norm1.weight"},
    {"v.blk.*.ln1.bias", "^blocks.*.norm1.bias"},
    {"v.blk.*.ln2.weight", "^blocks.*.norm2.weight"},
    {"v.blk.*.ln2.bias", "^blocks.*.norm2.bias"},
    {"v.blk.*.attn_qkv.weight", "^blocks.*.attn.qkv.weight"},
    {"v.blk.*.attn_qkv.bias", "^blocks.*.attn.qkv.bias"},
    {"v.blk.*.attn_q.weight", "^blocks.*.attn.q.weight"},
    {"v.blk.*.attn_q.bias", "^blocks.*.attn.q.bias"},
    {"v.blk.*.attn_k.weight", "^blocks.*.attn.k.weight"},
    {"v.blk.*.attn_k.bias", "^blocks.*.attn.k.bias"},
    {"v.blk.*.attn_v.weight", "^blocks.*.attn.v.weight"},
    {"v.blk.*.attn_v.bias", "^blocks.*.attn.v.bias"},
    {"v.blk.*.attn_out.weight", "^blocks.*.attn.proj.weight"},
    {"v.blk.*.attn_out.bias", "^blocks.*.attn.proj.bias"},
    {NULL, NULL},
};

void checkpoint_hf_read_qwen_tower(struct checkpoint_keys *keys,
                                   const struct hf_qwen_tower_terms *terms,
                                   struct vision_config *config)
{
    const struct vision_terms all = {.hidden_key = terms->hidden_key,
                                     .layers_key = "depth",
                                     .heads_key = "num_heads",
                                     .activation = terms->activation,
                                     .hidden = terms->hidden,
                                     .layers = terms->layers,
                                     .heads = terms->heads > 0 ? terms->heads : TOWER_HEADS,
                                     .patch_side = terms->patch_side,
                                     .norm_epsilon = TOWER_EPSILON};
    checkpoint_vision_sizes(keys, &all, config);
    checkpoint_hf_vision_merging(keys, config);
    checkpoint_vision_rope(keys, AXIAL_BASE, config);
    config->vision.frames = config->frames;
    config->vision.grid_positions = true;
}
