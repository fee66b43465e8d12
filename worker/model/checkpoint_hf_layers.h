/*
 * Which layers look back a sliding window, as config.json states it, for families.
 */
#ifndef SHOAL_WORKER_MODEL_CHECKPOINT_HF_LAYERS_H
#define SHOAL_WORKER_MODEL_CHECKPOINT_HF_LAYERS_H

#include <stdbool.h>

#include "worker/model/checkpoint_keys.h"
#include "worker/model/model_config.h"

/* The key sliding_window: `absent` where it is not there, 0 (none) where it is null, and none where
 * the context cannot outgrow it. */
uint32_t checkpoint_hf_window(struct checkpoint_keys *keys, const struct model_config *config,
                              uint32_t absent);

/* layer_types, an element a layer: slides[layer] of [LIMIT_LAYERS] says whether the layer looks
 * back a window. False, with nothing written, where the key is absent or refused. */
bool checkpoint_hf_layer_slides(struct checkpoint_keys *keys, const struct model_config *config,
                                bool *slides);

#endif
