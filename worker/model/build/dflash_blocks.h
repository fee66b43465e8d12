/*
 * The two passes of a DFlash drafter, over one set of keys and values.
 *
 * Context, of each position p whose token is known and whose inner states t(p) the model has computed:
 *
 *   c = hidden_norm(fc . t(p))
 *   in each layer k = rope(k_norm(Wk . c), p) and v = Wv . c are kept at position p
 *
 * Block, at the positions behind them: the last known token, then mask tokens. A Qwen 3 decoder whose rows see
 * the context and the whole block. The model's output matrix gives the logits of the rows of masks, each of which
 * proposes the token at its own position.
 *
 * Source: DFlash (arXiv 2602.06036); mlx-vlm 0.7.10, speculative/drafters/qwen3_dflash/dflash.py.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_DFLASH_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_DFLASH_BLOCKS_H

#include "worker/model/build/plan_builder.h"

/* The model's own weights and the scale of its embedding rows. */
struct dflash_target {
    const struct plan_weight *embedding; /* [vocab_tokens, hidden] */
    const struct plan_weight *output;    /* the same */
    float embedding_scale;
};

/* Lists the block's pass; returns the logits. */
plan_tensor_id dflash_blocks_list(struct plan_builder *b, const struct model_config *c,
                                  const struct dflash_target *target);
/* Lists that of the context, whose rows are given `tap_columns` of states; it has no logits. */
void dflash_blocks_list_context(struct plan_builder *b, const struct model_config *c,
                                uint32_t tap_columns);

#endif
