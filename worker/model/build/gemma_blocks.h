/*
 * What gemma3n and gemma4 have in common.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_GEMMA_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_GEMMA_BLOCKS_H

#include "worker/model/build/plan_ops.h"

/* inputs [step rows, layers * per_layer_columns] = (norm_per_layer(Wp . x / sqrt(hidden)) + the
 * tokens' rows of the second table * sqrt(columns)) / sqrt(2), x being the embedding. */
void gemma_blocks_per_layer_inputs(struct plan_builder *b, const struct model_config *c,
                                   plan_tensor_id x, plan_tensor_id inputs);

/* Keys and values of a layer that stores its own: both normed, values without weights; queries and
 * keys rotated. The queries are normed already. */
void gemma_blocks_keys(struct plan_builder *b, uint32_t layer, struct qkv_slices slices,
                       plan_tensor_id qkv);

/* The key and value matrices of a layer that shares keys may be stored all the same. */
void gemma_blocks_pass_over_keys(struct plan_builder *b, uint32_t layer);

#endif
