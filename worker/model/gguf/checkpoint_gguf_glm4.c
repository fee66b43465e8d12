/*
 * What a GGUF of the glm4 architecture states beyond the shared sizes: one rotary embedding over
 * the first part of each head, in adjacent pairs. Whether q, k and v have biases only their tensors
 * tell.
 *
 * Source: Hugging Face transformers, configuration_glm4.py and modeling_glm4.py.
 *
 * Refuses to do: the language part of GLM-4V, which goes by the same name: its rows are permuted
 * for positions of several dimensions.
 */
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"

#define GLM4_ROPE_BASE 10000.0f

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "rope.dimension_sections", 0);
    config->attention_bias = gguf_file_find_tensor(keys->file, "blk.0.attn_q.bias") != NULL;
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, GLM4_ROPE_BASE, &config->ropes[0]);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = 0, .rope = 0};
}

const struct gguf_form checkpoint_gguf_glm4 = {
    .read_config = read_config,
};
