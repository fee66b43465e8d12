/*
 * Qwen3 with mixtures of experts: qwen3 but for the layers whose feed-forward part is one. A
 * softmax over all experts' scores, of which the chosen ones' shares are taken as they are or made
 * to add up to one (expert_config.normalized).
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c,
        &(const struct dense_form){.head_norms = true,
                                   .experts = {.gate = {.activation = GATE_SILU}}});
}

const struct model_family family_qwen3_moe = {
    .architecture = "qwen3moe",
    .gguf = &checkpoint_gguf_qwen3_moe,
    .hf = &checkpoint_hf_qwen3_moe,
    .list_ops = list_ops,
};

const struct model_family family_qwen3_vl_moe = {
    .architecture = "qwen3_vl_moe",
    .hf = &checkpoint_hf_qwen3_vl_moe,
    .list_ops = list_ops,
    .list_vision_ops = tower_qwen3_vl_list_ops,
};
