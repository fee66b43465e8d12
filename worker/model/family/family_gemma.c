/*
 * Gemma 1: llama with the tanh-approximated gelu and embeddings times sqrt(hidden). GGUF converters
 * add the 1 that norm weights lack; norm_weight_offset is what is still to be added.
 */
#include <math.h>

#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE 10000.0f

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the gemma architecture, beyond the sizes that all families have: one rotary
 * embedding over the halves of a head.
 */
static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->embedding_scale = sqrtf((float)config->hidden);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
}

static const struct gguf_form gguf_gemma = {
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Gemma. Older published configs say hidden_act "gelu", which
 * transformers reads as the tanh approximation.
 *
 * Source: transformers, configuration_gemma.py and modeling_gemma.py.
 */
static const char *const model_types[] = {"gemma", NULL};
static const char *const own_keys[] = {"attention_bias", NULL};
static const char *const prefixes[] = {"model.", NULL};

static void check_activation(struct checkpoint_keys *keys)
{
    struct gguf_string name = checkpoint_keys_string_or_empty(keys, "hidden_act");
    if (name.length > 0 && !checkpoint_keys_is(name, "gelu") &&
        !checkpoint_keys_is(name, "gelu_pytorch_tanh"))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "hidden_act is neither \"gelu\" nor \"gelu_pytorch_tanh\"");
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    check_activation(keys);
    config->embedding_scale = sqrtf((float)config->hidden);
    config->norm_weight_offset = 1.0f;
    checkpoint_hf_read_biases(keys, config);
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
}

static const struct hf_form hf_gemma = {
    .model_types = model_types,
    .defaults = {.layers = 28,
                 .hidden = 3072,
                 .feed_forward = 24576,
                 .heads = 16,
                 .kv_heads = 16,
                 .head_dim = 256,
                 .vocab_tokens = 256000,
                 .norm_epsilon = 1e-6f,
                 .tied_embeddings = true},
    .activation_key = "hidden_activation",
    .activation = "gelu_pytorch_tanh",
    .own_keys = own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c, &(const struct dense_form){.activation = GATE_GELU_TANH});
}

const struct model_family family_gemma = {
    .architecture = "gemma",
    .gguf = &gguf_gemma,
    .hf = &hf_gemma,
    .list_ops = list_ops,
};
