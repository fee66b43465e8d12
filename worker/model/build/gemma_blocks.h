/*
 * Parts of the forward pass that gemma3n and gemma4 share.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_GEMMA_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_GEMMA_BLOCKS_H

#include "worker/model/build/plan_ops.h"

/* inputs [step rows, layers * per_layer_columns] = (norm_per_layer(Wp . x / sqrt(hidden)) + the
 * tokens' rows of the second table * sqrt(columns)) / sqrt(2), x being the embedding. */
void gemma_blocks_per_layer_inputs(struct plan_builder *b, const struct model_config *c,
                                   plan_tensor_id x, plan_tensor_id inputs);

/* For a layer that stores its own keys: norms keys and values (values without weights), rotates
 * queries and keys, and stores keys and values. The queries are already normed. */
void gemma_blocks_keys(struct plan_builder *b, uint32_t layer, struct qkv_slices slices,
                       plan_tensor_id qkv);

/* Marks the key and value matrices of a layer that shares keys as used; some checkpoints store
 * them. */
void gemma_blocks_pass_over_keys(struct plan_builder *b, uint32_t layer);

#endif
