/*
 * What the towers of all Qwen families say alike in Hugging Face checkpoints.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_QWEN_TOWER_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_QWEN_TOWER_H

#include "worker/model/hf/checkpoint_hf_vision.h"

/* Beginnings of the names of a tower's tensors, ends with NULL. */
extern const char *const checkpoint_hf_qwen_towers[];
/* Of the text beside one, and of text alone. */
extern const char *const checkpoint_hf_qwen_texts[];
/* The patches' matrix, norms and attention of layers: tensor_naming.usual. */
extern const struct tensor_name checkpoint_hf_qwen_tower_names[];

/* What differs. */
struct hf_qwen_tower_terms {
    const char *hidden_key;
    const char *activation;
    uint32_t hidden;
    uint32_t layers;
    uint32_t patch_side;
};
/* Sizes, merged squares, frames, and the rope by line and column; not the feed-forward's width. */
void checkpoint_hf_read_qwen_tower(struct checkpoint_keys *keys,
                                   const struct hf_qwen_tower_terms *terms,
                                   struct vision_config *config);

#endif
