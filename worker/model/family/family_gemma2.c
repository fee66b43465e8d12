/*
 * Gemma 2: the dense decoder with the tanh-approximated gelu and norms on both sides of each half.
 *
 * The rest is in the config: embeddings times sqrt(hidden), every other layer behind a window, soft
 * caps of scores (in the attention op) and logits. GGUF converters have already added the 1 that
 * norm weights leave out; norm_weight_offset says whether it is still to be added.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c, &(const struct dense_form){.post_norms = true, .activation = GATE_GELU_TANH});
}

const struct model_family family_gemma2 = {
    .architecture = "gemma2",
    .gguf = &checkpoint_gguf_gemma2,
    .hf = &checkpoint_hf_gemma2,
    .list_ops = list_ops,
};
