/*
 * Qwen2 and Qwen2.5: llama with biases on queries, keys and values.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c, &(const struct dense_form){.qkv_bias = true});
}

const struct model_family family_qwen2 = {
    .architecture = "qwen2",
    .gguf = &checkpoint_gguf_qwen2,
    .hf = &checkpoint_hf_qwen2,
    .list_ops = list_ops,
};

/* In GGUF the towers of these are files of their own, which are not read. */
const struct model_family family_qwen2_vl = {
    .architecture = "qwen2_vl",
    .hf = &checkpoint_hf_qwen2_vl,
    .list_ops = list_ops,
    .list_vision_ops = tower_qwen2_vl_list_ops,
};

const struct model_family family_qwen2_5_vl = {
    .architecture = "qwen2_5_vl",
    .hf = &checkpoint_hf_qwen2_5_vl,
    .list_ops = list_ops,
    .list_vision_ops = tower_qwen2_5_vl_list_ops,
};
