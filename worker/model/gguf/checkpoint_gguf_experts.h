/*
 * Reads mixtures of experts from GGUF metadata: <arch>.expert_* and leading_dense_block_count.
 */
#ifndef SHOAL_WORKER_MODEL_GGUF_CHECKPOINT_GGUF_EXPERTS_H
#define SHOAL_WORKER_MODEL_GGUF_CHECKPOINT_GGUF_EXPERTS_H

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"

/* What the family's converter leaves out. */
struct gguf_expert_terms {
    bool sigmoid;    /* if expert_gating_func is absent; else the softmax of all scores */
    bool normalized; /* if expert_weights_norm is absent */
    float epsilon;   /* op_list.h, moe_route */
};

/* Keys of struct gguf_form, own_keys, that checkpoint_gguf_read_experts() reads. */
#define GGUF_EXPERT_KEYS "expert_count"

/*
 * Fills the experts of every layer but the first leading_dense_block_count: their number, which may
 * be 0 unless `required`, width, weights, groups, the bias of the choice (blk.N.exp_probs_b.bias, by
 * its presence in the first such layer) and the expert that all rows use, which is
 * expert_shared_feed_forward_length wide or expert_shared_count times as wide as the others.
 */
void checkpoint_gguf_read_experts(struct checkpoint_keys *keys,
                                  const struct gguf_expert_terms *terms,
                                  struct model_config *config);

#endif
