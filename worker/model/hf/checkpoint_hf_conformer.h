/*
 * The keys of conformers of sounds in config.json (worker/model/build/conformer_blocks.h), which differ in names.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_CONFORMER_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_CONFORMER_H

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/vision_config.h"

/* Names of keys, and the hidden size of the class. */
struct conformer_terms {
    uint32_t hidden_size;
    const char *layers;
    const char *heads;
    const char *channels;
    const char *taps;
    const char *chunk;
    const char *left;
    const char *right;
    const char *soft_cap;
    const char *residual_weight;
};

/* The context of attention, whose meaning differs. */
struct conformer_context {
    uint32_t chunk; /* rows that the publisher's code computes together */
    uint32_t left;  /* above 0 */
};

/* Reads what conformers have in common into the config, with all of `vision` but the sizes of sounds. */
struct conformer_context checkpoint_hf_conformer(struct checkpoint_keys *keys,
                                                 const struct conformer_terms *terms,
                                                 struct vision_config *config);

/* Reads the tokens of a modality (gemma3n); `absent` has the class's. */
void checkpoint_hf_modality_tokens(struct checkpoint_keys *keys,
                                   const struct modality_tokens *absent,
                                   struct modality_tokens *tokens);

#endif
