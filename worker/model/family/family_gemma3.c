/*
 * Gemma 3 (text): Gemma 2 with norms over each query and key head before rotation instead of soft
 * caps. Its layers alternate between two rotary embeddings as well as between a sliding window and
 * all positions; both are in the config's layers.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c,
                             &(const struct dense_form){.head_norms = true,
                                                        .post_norms = true,
                                                        .activation = GATE_GELU_TANH});
}

const struct model_family family_gemma3 = {
    .architecture = "gemma3",
    .gguf = &checkpoint_gguf_gemma3,
    .hf = &checkpoint_hf_gemma3,
    .list_ops = list_ops,
    .list_vision_ops = tower_gemma3_list_ops,
};
