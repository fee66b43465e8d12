/*
 * Phi-3, Phi-3.5 and Phi-4: llama with projections stored as one matrix.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/model_family.h"

plan_tensor_id family_phi3_list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c, &(const struct dense_form){.joined_qkv = true, .joined_gate_up = true});
}
