/*
 * The vision part of a config.json to a checked vision_config.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_VISION_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_VISION_H

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/tensor_naming.h"
#include "worker/plan/vision_config.h"

/* How Hugging Face checkpoints state a family's vision tower. */
struct hf_vision_form {
    struct tensor_naming naming; /* without other_parts */
    const char *probe;           /* asked name of a tensor that every tower has */
    const char *const *parts;    /* beginnings of the tower's tensors: plan_source.parts */
    /* Fills all of the config but vision.stages; `root` is the whole config, which may say more. */
    void (*read_config)(struct checkpoint_keys *keys, struct checkpoint_keys *root,
                        struct vision_config *config);
};

/* RESULT_NOT_FOUND, with no words, where the config has no vision part. The error begins with the
 * part's name and names the key. */
enum result checkpoint_hf_read_vision(struct json_value root, const struct hf_vision_form *form,
                                      const struct model_config *text, struct vision_config *config,
                                      struct error_text *error) RESULT_CHECKED;

/* checkpoint_hf_qwen3_vl.c, checkpoint_hf_siglip.c, checkpoint_hf_gemma4_tower.c */
extern const struct hf_vision_form checkpoint_hf_qwen3_vl_tower;
extern const struct hf_vision_form checkpoint_hf_gemma3_tower;
extern const struct hf_vision_form checkpoint_hf_idefics3_tower;
extern const struct hf_vision_form checkpoint_hf_gemma4_tower;

/* --- for forms --- */

/* What a class has where a config says nothing, and what its config calls things. */
struct hf_vision_terms {
    const char *hidden_key; /* the tower's */
    const char *layers_key;
    const char *heads_key;
    const char *activation_key; /* NULL: hidden_act */
    const char *activation;     /* the only one known, and the default */
    uint32_t hidden;
    uint32_t layers;
    uint32_t heads;
    uint32_t patch_side;
    float norm_epsilon;
};

/* Pictures of one square size in a learned table of positions: image_size, and squares of
 * merge_side patches, which the caller has set. */
void checkpoint_hf_vision_square(struct checkpoint_keys *keys, uint32_t image_pixels,
                                 struct vision_config *config);
/* Sizes, patches of three channels, plain heads without a rope. */
void checkpoint_hf_vision_sizes(struct checkpoint_keys *keys, const struct hf_vision_terms *terms,
                                struct vision_config *config);
/* Merging in squares, and frames of a patch, as Qwen's towers have them. */
void checkpoint_hf_vision_merging(struct checkpoint_keys *keys, struct vision_config *config);
/* The first half of a head's pairs turns by a patch's line, the second by its column, each with the
 * frequencies of half a head; ropes[0]. rope_parameters may state the base. */
void checkpoint_hf_vision_rope(struct checkpoint_keys *keys, float absent_base,
                               struct vision_config *config);
/* The first half of a head turns by a patch's column, as if it were a head, ropes[0], and the
 * second by its line, ropes[1]. */
void checkpoint_hf_vision_rope_halves(struct checkpoint_keys *keys, float absent_base,
                                      struct vision_config *config);
/* A list of at most `most` numbers below `bound`; *count of them. False: absent. */
bool checkpoint_hf_vision_list(struct checkpoint_keys *keys, const char *name, uint32_t bound,
                               uint32_t most, uint32_t *numbers, uint32_t *count);

#endif
