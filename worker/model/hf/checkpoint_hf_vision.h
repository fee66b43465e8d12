/*
 * Reads the vision part of a config.json into a checked vision_config.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_VISION_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_VISION_H

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/model/checkpoint/checkpoint_vision.h"
#include "worker/plan/tensor_naming.h"
#include "worker/plan/vision_config.h"

/* How Hugging Face checkpoints state a family's vision tower. */
struct hf_vision_form {
    struct tensor_naming naming; /* without other_parts */
    const char *part;            /* of config.json; NULL: vision_config; "": all of it */
    const char *probe;           /* GGUF-style name of a tensor that every tower has */
    const char *const *parts;    /* prefixes of the tower's tensors: plan_source.parts */
    /* Fills all of the config but vision.stages; `root` is the whole config, which may hold more of
     * its keys. */
    void (*read_config)(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config);
};

/* RESULT_NOT_FOUND, without an error text, if the config has no vision part. The error begins with
 * the part's name and names the key. */
enum result checkpoint_hf_read_vision(struct json_value root, const struct hf_vision_form *form,
                                      const struct model_config *text, struct vision_config *config,
                                      struct error_text *error) RESULT_CHECKED;

/* checkpoint_hf_qwen3_vl.c, checkpoint_hf_siglip.c, checkpoint_hf_gemma4_tower.c,
 * checkpoint_hf_glm4v_tower.c */
extern const struct hf_vision_form checkpoint_hf_qwen3_vl_tower;
extern const struct hf_vision_form checkpoint_hf_gemma3_tower;
extern const struct hf_vision_form checkpoint_hf_idefics3_tower;
extern const struct hf_vision_form checkpoint_hf_gemma4_tower;
extern const struct hf_vision_form checkpoint_hf_glm4v_tower;
extern const struct hf_vision_form checkpoint_hf_glm_ocr_tower;
/* family/tower_qwen2_audio.c, which lists its ops by tower_qwen2_5_omni_list_ops() */
extern const struct hf_vision_form checkpoint_hf_qwen2_5_omni_sound;
/* family/tower_gemma4_sound.c and tower_gemma3n_sound.c, tower_..._sound_list_ops() */
extern const struct hf_vision_form checkpoint_hf_gemma3n_sound;
extern const struct hf_vision_form checkpoint_hf_gemma4_sound;

/* family/tower_mllama.c */
extern const struct hf_vision_form checkpoint_hf_mllama_tower;

/* --- helpers for the forms --- */

/* Tensor names of CLIP's and SigLIP's towers. */
extern const struct tensor_name checkpoint_hf_clip_names[];
/* Reads the sizes of CLIP's and SigLIP's towers. `terms` has the defaults of sizes. */
void checkpoint_hf_clip_sizes(struct checkpoint_keys *keys, struct vision_terms terms,
                              struct vision_config *config);
/* Reads key `name`, which says after how many layers the tower ends. -1, the last, is after all of
 * them. */
void checkpoint_hf_feature_layer(struct checkpoint_keys *root, const char *name, int absent,
                                 struct vision_config *config);

/* Checks that the first row of a tile, the class row, is dropped ("default") if the tower has one, and
 * that no row is dropped ("full") if it has none. */
void checkpoint_hf_feature_selection(struct checkpoint_keys *root, const char *absent,
                                     bool lead_row);

/* Reads the merged squares and the frames of a patch, as Qwen's towers have them. */
void checkpoint_hf_vision_merging(struct checkpoint_keys *keys, struct vision_config *config);
/* Reads a list of at most `most` numbers below `bound` and sets *count. Returns false if it is
 * absent. */
bool checkpoint_hf_vision_list(struct checkpoint_keys *keys, const char *name, uint32_t bound,
                               uint32_t most, uint32_t *numbers, uint32_t *count);

/* Names of the publisher's SigLIP towers, which are those of timm. */
/* clang-format off */
#define HF_TIMM_NAMES \
    {"v.patch_embd.weight", "^patch_embed.proj.weight"}, \
    {"v.patch_embd.bias", "^patch_embed.proj.bias"}, \
    {"v.position_embd.weight", "^pos_embed"}, \
    {"v.blk.*.ln1.weight", "^blocks.*.norm1.weight"}, \
    {"v.blk.*.ln1.bias", "^blocks.*.norm1.bias"}, \
    {"v.blk.*.ln2.weight", "^blocks.*.norm2.weight"}, \
    {"v.blk.*.ln2.bias", "^blocks.*.norm2.bias"}, \
    {"v.blk.*.attn_qkv.weight", "^blocks.*.attn.qkv.weight"}, \
    {"v.blk.*.attn_qkv.bias", "^blocks.*.attn.qkv.bias"}, \
    {"v.blk.*.attn_out.weight", "^blocks.*.attn.proj.weight"}, \
    {"v.blk.*.attn_out.bias", "^blocks.*.attn.proj.bias"}, \
    {"v.blk.*.ffn_up.weight", "^blocks.*.mlp.fc1.weight"}, \
    {"v.blk.*.ffn_up.bias", "^blocks.*.mlp.fc1.bias"}, \
    {"v.blk.*.ffn_down.weight", "^blocks.*.mlp.fc2.weight"}, \
    {"v.blk.*.ffn_down.bias", "^blocks.*.mlp.fc2.bias"}, \
    {"v.post_ln.weight", "^norm.weight"}, \
    {"v.post_ln.bias", "^norm.bias"}
/* clang-format on */

/* Refuses any other word of this key; it may be absent. */
void checkpoint_hf_expect_word(struct checkpoint_keys *keys, const char *name, const char *word);
/* Reads mlp_ratio, how much wider the feed-forward part is than the tower, rounded down. */
void checkpoint_hf_read_ratio(struct checkpoint_keys *keys, float absent,
                              struct vision_config *config);

#endif
