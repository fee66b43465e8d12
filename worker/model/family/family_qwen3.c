/*
 * Qwen3, dense: llama with a norm on every query and key head.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/model_family.h"

plan_tensor_id family_qwen3_list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c, &(const struct dense_form){.head_norms = true});
}
