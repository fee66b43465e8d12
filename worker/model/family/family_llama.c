/*
 * Llama 1 to 3.x, SmolLM2 and Mistral: the form that dense_blocks.h varies, with nothing added. A
 * sliding window over all layers (Mistral 7B) is a fact of the config.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/model_family.h"

plan_tensor_id family_llama_list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c, &(const struct dense_form){0});
}
