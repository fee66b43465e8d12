/*
 * Decoders in which state space mixers (ssm_blocks.h) stand in for attention or beside it: a layer's kind
 * says what it has. Attention and feed-forward parts are those of dense_blocks.h.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_HYBRID_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_HYBRID_BLOCKS_H

#include "worker/model/build/dense_blocks.h"

struct hybrid_form {
    struct dense_form dense; /* its parallel, post_norms and layer_norms are not used */
    /* A layer has one part, after one norm: what its kind says. Otherwise each layer has a
     * feed-forward part too, after a norm of its own. */
    bool single;
    /* Adds the feed-forward part; NULL: as `dense` says. */
    void (*list_feed_forward)(struct plan_builder *b, const struct model_config *c, uint32_t layer,
                              const struct dense_tensors *t);
};

/* Lists the whole forward pass; returns the logits. */
plan_tensor_id hybrid_blocks_list(struct plan_builder *b, const struct model_config *c,
                                  const struct hybrid_form *form);

#endif
