/*
 * GLM-4: the dense decoder with norms on both sides of each half, gate and up in one matrix, and
 * biases of q, k and v in some checkpoints. Only a part of each head rotates, which the config's
 * rope says.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c,
                             &(const struct dense_form){.qkv_bias = c->attention_bias,
                                                        .joined_gate_up = true,
                                                        .post_norms = true});
}

const struct model_family family_glm4 = {
    .architecture = "glm4",
    .gguf = &checkpoint_gguf_glm4,
    .hf = &checkpoint_hf_glm4,
    .list_ops = list_ops,
};
