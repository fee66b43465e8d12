/*
 * Qwen3, dense: llama with a norm on every query and key head.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c, &(const struct dense_form){.head_norms = true});
}

const struct model_family family_qwen3 = {
    .architecture = "qwen3",
    .gguf = &checkpoint_gguf_qwen3,
    .hf = &checkpoint_hf_qwen3,
    .list_ops = list_ops,
};

const struct model_family family_qwen3_vl = {
    .architecture = "qwen3vl",
    .gguf = &checkpoint_gguf_qwen3_vl,
    .hf = &checkpoint_hf_qwen3_vl,
    .list_ops = list_ops,
    .list_vision_ops = tower_qwen3_vl_list_ops,
};
