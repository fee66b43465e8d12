/*
 * Llama 1 to 3.x, SmolLM2 and Mistral: the form that dense_blocks.h varies, with nothing added. A
 * sliding window over all layers (Mistral 7B) is a fact of the config.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c, &(const struct dense_form){0});
}

const struct model_family family_llama = {
    .architecture = "llama",
    .gguf = &checkpoint_gguf_llama,
    .hf = &checkpoint_hf_llama,
    .list_ops = list_ops,
};

/* In GGUF it is called llama. */
const struct model_family family_mistral = {
    .architecture = "mistral",
    .hf = &checkpoint_hf_mistral,
    .list_ops = list_ops,
};

const struct model_family family_ministral3 = {
    .architecture = "mistral3",
    .gguf = &checkpoint_gguf_ministral3,
    .hf = &checkpoint_hf_ministral3,
    .list_ops = list_ops,
};

const struct model_family family_idefics3 = {
    .architecture = "idefics3",
    .hf = &checkpoint_hf_idefics3,
    .list_ops = list_ops,
    .list_vision_ops = tower_idefics3_list_ops,
};
