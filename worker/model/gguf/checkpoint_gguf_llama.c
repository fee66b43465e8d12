/*
 * What a GGUF of the llama architecture states beyond the shared sizes: one rotary embedding, and
 * for some Mistral checkpoints one sliding window over all layers.
 *
 * Converters permute the rows of the query and key projections so that the pairs to be rotated lie
 * side by side; that is why the pairing here is not Hugging Face's. Llama 3.1's frequency scaling
 * arrives as the tensor rope_freqs.weight.
 *
 * Refuses to do: mixtures of experts that use the same architecture name (expert_count is among the
 * keys that must be neutral).
 */
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"

#define LLAMA_ROPE_BASE 10000.0f

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, LLAMA_ROPE_BASE, &config->ropes[0]);
    uint32_t window = checkpoint_gguf_window(keys, config, false);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = window, .rope = 0};
}

const struct gguf_form checkpoint_gguf_llama = {
    .read_config = read_config,
};
