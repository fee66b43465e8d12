/*
 * Which layers look back a sliding window, and which columns of their own they have for each token,
 * as config.json states it, for families.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_LAYERS_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_LAYERS_H

#include <stdbool.h>

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"

/* The key sliding_window: `absent` where it is not there, 0 (none) where it is null, and none where
 * the context cannot outgrow it. */
uint32_t checkpoint_hf_window(struct checkpoint_keys *keys, const struct model_config *config,
                              uint32_t absent);

/* layer_types, an element a layer: slides[layer] of [LIMIT_LAYERS] says whether the layer looks
 * back a window. False, with nothing written, where the key is absent or refused. */
bool checkpoint_hf_layer_slides(struct checkpoint_keys *keys, const struct model_config *config,
                                bool *slides);

/* What a class has of layers that see all positions between layers that look back a window. */
struct hf_layer_pattern {
    uint32_t window;      /* where sliding_window is not stated */
    uint32_t period;      /* where nothing is: every so-manyth layer sees all positions */
    uint32_t global_rope; /* layer_config.rope of those */
    uint32_t window_rope; /* and of the others */
};
/* Fills every layer's window and rope from layer_types or, before there was that, the period in
 * sliding_window_pattern. */
void checkpoint_hf_read_layers(struct checkpoint_keys *keys, const struct hf_layer_pattern *pattern,
                               struct model_config *config);

/* The tables of gemma3n and gemma4 that give each layer columns of its own for each token: how many
 * columns, `least` or more of them (`absent_columns` where hidden_size_per_layer_input is not
 * stated), for how many tokens (`absent_tokens`). */
void checkpoint_hf_read_per_layer(struct checkpoint_keys *keys, uint32_t least,
                                  uint32_t absent_columns, uint32_t absent_tokens,
                                  struct model_config *config);

#endif
