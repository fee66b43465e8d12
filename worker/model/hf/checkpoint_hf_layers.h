/*
 * Reads from config.json which layers have a sliding window, and the size of per-layer embeddings,
 * for families.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_LAYERS_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_LAYERS_H

#include <stdbool.h>

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"

/* The key sliding_window: returns `absent` if there is no such key, and 0 (no window) if it is null
 * or the context is not longer than the window. */
uint32_t checkpoint_hf_window(struct checkpoint_keys *keys, const struct model_config *config,
                              uint32_t absent);

/* layer_types, one element per layer: slides[layer] of [LIMIT_LAYERS] says whether the layer has a
 * window. If the key is absent or refused, returns false and leaves `slides` unchanged. */
bool checkpoint_hf_layer_slides(struct checkpoint_keys *keys, const struct model_config *config,
                                bool *slides);

/* Defaults of a class that mixes global layers and layers with a window. */
struct hf_layer_pattern {
    uint32_t window;      /* if sliding_window is absent */
    uint32_t period;      /* if the pattern is not stated: one layer of `period` is global */
    uint32_t global_rope; /* layer_config.rope of global layers */
    uint32_t window_rope; /* layer_config.rope of layers with a window */
};
/* Fills every layer's window and rope from layer_types, or from the older key
 * sliding_window_pattern, a period. */
void checkpoint_hf_read_layers(struct checkpoint_keys *keys, const struct hf_layer_pattern *pattern,
                               struct model_config *config);

/* Reads the sizes of the per-layer embedding of gemma3n and gemma4: columns per layer, `least` or
 * more (`absent_columns` if hidden_size_per_layer_input is absent), and tokens (`absent_tokens` if
 * absent). */
void checkpoint_hf_read_per_layer(struct checkpoint_keys *keys, uint32_t least,
                                  uint32_t absent_columns, uint32_t absent_tokens,
                                  struct model_config *config);

#endif
