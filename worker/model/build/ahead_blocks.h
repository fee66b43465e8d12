/*
 * What layers that predict a further token (multi-token prediction) have in common, before and after their
 * decoder layer. Of position p such a layer takes the token at p + 1 and the model's hidden state h at p, after
 * the final norm:
 *
 *   x = Weh . (enorm(embedding(token)) | hnorm(h))
 *   x = layer(x), with keys and values of its own at position p
 *   logits of the token at p + 2 = the model's output matrix . shared_head_norm(x)
 *
 * A further token is predicted from a state of its own in place of h: the normed one in Qwen 3.5, x itself in
 * DeepSeek 3 and GLM-4.5.
 *
 * Source: DeepSeek-V3 Technical Report, section 2.2; vLLM, models/deepseek_mtp.py, glm4_moe_mtp.py and
 * qwen3_5_mtp.py, except that those of the first two set the embedding at position 0 to zero, which the report
 * does not.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_AHEAD_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_AHEAD_BLOCKS_H

#include <stdbool.h>

#include "worker/model/build/plan_builder.h"

/* Lists what precedes the layer: x is in `residual`; `normed` is scratch; both [step rows, hidden]. Copies of
 * the embedding and of the output matrix that the layer may have are the model's, and not used. */
void ahead_blocks_list_input(struct plan_builder *b, const struct model_config *c,
                             plan_tensor_id normed, plan_tensor_id residual);
/* Lists what follows it, for logit rows; returns the logits. `keeps_normed`: which state is its own. */
plan_tensor_id ahead_blocks_list_end(struct plan_builder *b, const struct model_config *c,
                                     bool keeps_normed, plan_tensor_id residual,
                                     plan_tensor_id normed);

#endif
