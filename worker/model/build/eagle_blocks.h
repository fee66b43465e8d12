/*
 * The layer of an EAGLE-3 head. Its row of position p takes the token at p + 1 and either the target's inner
 * states t at p, side by side, or a state of its own, s:
 *
 *   h = fc . t + s              the other of both is zero; with norm_before_fc t is normed first
 *   x = input_layernorm(embedding(token)) | hidden_norm(h)
 *   y = h + attention(x)        q, k and v read both halves; with norm_before_residual hidden_norm(h) + ...
 *   y = y + feed_forward(y)     y is its state for the next row
 *   logits = lm_head . norm(y)  of draft_vocab_size tokens
 *
 * Source: EAGLE-3 (arXiv 2503.01840) and its repository, eagle/model/cnets.py; the two options are of
 * speculators. mlx-vlm 0.7.10, speculative/drafters/eagle3/eagle3.py, computes the same.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_EAGLE_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_EAGLE_BLOCKS_H

#include <stdbool.h>

#include "worker/model/build/plan_builder.h"

struct eagle_form {
    uint32_t tap_columns; /* of all inner states of the target together */
    bool norm_before_fc;
    bool norm_before_residual;
    bool tied; /* the logits' matrix is the embedding */
};

/* Lists the pass of a config with one layer; returns the logits. The row given to steps has the tap columns,
 * then those of its own state. */
plan_tensor_id eagle_blocks_list(struct plan_builder *b, const struct model_config *c,
                                 const struct eagle_form *form);

#endif
