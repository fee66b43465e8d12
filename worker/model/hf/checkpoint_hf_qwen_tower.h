/*
 * Reads what the towers of all Qwen families have in common in Hugging Face checkpoints.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_QWEN_TOWER_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_QWEN_TOWER_H

#include "worker/model/hf/checkpoint_hf_vision.h"

/* Prefixes of a tower's tensor names, ends with NULL. */
extern const char *const checkpoint_hf_qwen_towers[];
/* Prefixes of text tensors, with and without a tower; ends with NULL. */
extern const char *const checkpoint_hf_qwen_texts[];
/* The same of models that listen and speak, and the prefixes of their other parts. */
extern const char *const checkpoint_hf_omni_towers[];
extern const char *const checkpoint_hf_omni_texts[];
extern const char *const checkpoint_hf_omni_parts[];
/* Names of the patch matrix, norms and attention: tensor_naming.usual. */
extern const struct tensor_name checkpoint_hf_qwen_tower_names[];

/* What differs between the towers. */
struct hf_qwen_tower_terms {
    const char *hidden_key;
    const char *activation;
    uint32_t hidden;
    uint32_t layers;
    uint32_t heads; /* 0: 16 */
    uint32_t patch_side;
};
/* Reads sizes, merged squares, frames, and the rope by line and column; not the width of the
 * feed-forward part. */
void checkpoint_hf_read_qwen_tower(struct checkpoint_keys *keys,
                                   const struct hf_qwen_tower_terms *terms,
                                   struct vision_config *config);

#endif
