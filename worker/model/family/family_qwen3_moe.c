/*
 * Qwen3 with mixtures of experts: qwen3 but for the layers whose feed-forward part is one. A
 * softmax over all experts' scores, of which the chosen ones' shares are taken as they are or made
 * to add up to one (expert_config.normalized).
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/model_family.h"

plan_tensor_id family_qwen3_moe_list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c,
        &(const struct dense_form){.head_norms = true,
                                   .experts = {.gate = {.activation = GATE_SILU}}});
}
