/*
 * Reads from config.json which layers attend and which keep recurrent state, for families with both
 * kinds.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_RECURRENT_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_RECURRENT_H

#include "worker/model/hf/checkpoint_hf.h"

struct hf_recurrent_layers {
    const char
        *word; /* value in layer_types of a recurrent layer; the others are "full_attention" */
    /* The same in older configs, whose other layers are "attention"; NULL: there are none. */
    const char *older_word;
    enum layer_kind kind;
    const char
        *indices;       /* key with a list of the layers that attend, if there are no layer_types */
    const char *period; /* key with a number N: one layer of N attends; NULL: no such key */
    uint32_t default_period; /* period if nothing is stated, above 0; 1: every layer */
};

/* Sets every layer's kind. Layers that attend see all positions and use rope 0. */
void checkpoint_hf_read_layer_kinds(struct checkpoint_keys *keys, struct model_config *config,
                                    const struct hf_recurrent_layers *recurrent);

#endif
