/*
 * gpt-oss: llama with biases everywhere, a sink for each head in attention's softmax, a window in
 * every other layer, and in each layer experts whose gate is limited. Which experts' weights are a
 * softmax over the chosen ones' scores.
 *
 * Source: transformers, modeling_gpt_oss.py.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    const struct dense_form form = {
        .qkv_bias = true,
        .output_bias = true,
        .sinks = true,
        .feed_forward_norm = "post_attention_norm",
        .experts = {.biases = true,
                    .softmax_chosen = true,
                    .gate = {.activation = GATE_SILU,
                             .interleaved = true,
                             .limit = c->experts.gate_limit,
                             .alpha = c->experts.gate_alpha}},
    };
    return dense_blocks_list(b, c, &form);
}

const struct model_family family_gpt_oss = {
    .architecture = "gpt-oss",
    .gguf = &checkpoint_gguf_gpt_oss,
    .hf = &checkpoint_hf_gpt_oss,
    .list_ops = list_ops,
};
