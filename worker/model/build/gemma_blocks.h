/*
 * Parts of the forward pass that gemma3n and gemma4 share.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_GEMMA_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_GEMMA_BLOCKS_H

#include "worker/model/build/plan_ops.h"

/*
 * What an assistant, a small drafter, uses of the model. Its layers have queries alone: each attends over keys and
 * values of the model's last layer of its kind. Its row has the last token and a state h of `hidden` columns, which
 * is the model's after its final norm at the position before, or the row before its own output.
 *
 *   x = pre_projection . (embedding(token) * scale | h)
 *   layers of the family, with the rotary position of the last token in all rows
 *   h' = post_projection . norm(x), logits = output . norm(x)
 *
 * Source: transformers 5.24, modeling_gemma4_assistant.py and SinglePositionMultiTokenCandidateGenerator.
 */
struct assistant_target {
    const struct plan_weight *embedding; /* [vocab_tokens, hidden] of the model */
    float embedding_scale;
    uint32_t hidden;
};

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

/* Rows [first, first + count) of the tokens of another modality, as embeddings of width `hidden`:
 *
 *   norm(W . norm(row)), the last norm without weights
 *
 * of tensors "hard.STEM.embedding.weight", "hard.STEM.norm.weight" and "hard.STEM.projection.weight", which are floats. */
struct modality_rows {
    const char *stem;
    struct modality_tokens tokens;
    uint32_t first;
    uint32_t count;
    uint32_t hidden;
};
plan_weight_id gemma_blocks_modality_rows(struct plan_builder *b, const struct modality_rows *rows);

#endif
