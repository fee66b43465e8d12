/*
 * Phi-3, Phi-3.5 and Phi-4: llama with projections stored as one matrix.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c, &(const struct dense_form){.joined_qkv = true, .joined_gate_up = true});
}

const struct model_family family_phi3 = {
    .architecture = "phi3",
    .gguf = &checkpoint_gguf_phi3,
    .hf = &checkpoint_hf_phi3,
    .list_ops = list_ops,
};
