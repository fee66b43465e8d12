/*
 * Which layers of a config.json attend and which keep recurrent state, for families that have both.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_RECURRENT_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_RECURRENT_H

#include "worker/model/hf/checkpoint_hf.h"

struct hf_recurrent_layers {
    const char *word; /* of layer_types, for a recurrent layer; others are "full_attention" */
    enum layer_kind kind;
    const char *indices; /* a list of the layers that attend, where there are no layer_types; or */
    const char *period;  /* a number: every so many-th layer attends. NULL: there is no such key */
    uint32_t default_period; /* where nothing is stated, > 0; 1: every layer */
};

/* Sets every layer's kind. Layers that attend see everything and use rope 0. */
void checkpoint_hf_read_layer_kinds(struct checkpoint_keys *keys, struct model_config *config,
                                    const struct hf_recurrent_layers *recurrent);

#endif
