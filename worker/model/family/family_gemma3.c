/*
 * Gemma 3 (text): Gemma 2 with norms over each query and key head before rotation instead of soft
 * caps. Its layers alternate between two rotary embeddings as well as between a sliding window and
 * all positions; both are in the config's layers.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/model_family.h"

plan_tensor_id family_gemma3_list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c,
                             &(const struct dense_form){.head_norms = true,
                                                        .post_norms = true,
                                                        .activation = GATE_GELU_TANH});
}
