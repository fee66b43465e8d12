/*
 * Qwen2 and Qwen2.5: llama with biases on queries, keys and values.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/model_family.h"

plan_tensor_id family_qwen2_list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c, &(const struct dense_form){.qkv_bias = true});
}
