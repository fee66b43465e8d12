/*
 * Arcee (AFM): llama with a feed-forward part without a gate, whose activation is the square of
 * relu.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE 10000.0f

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the arcee architecture, beyond the sizes that all families have: one rotary
 * embedding over adjacent pairs, because rows are permuted as in llama.
 */
static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_gguf_read_biases(keys, config);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
}

static const struct gguf_form gguf_arcee = {
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/* Source: transformers, configuration_arcee.py and modeling_arcee.py. */
static const char *const model_types[] = {"arcee", NULL};
static const char *const own_keys[] = {"attention_bias", "mlp_bias", NULL};
static const char *const prefixes[] = {"model.", NULL};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    checkpoint_hf_read_biases(keys, config);
    config->feed_forward_bias = checkpoint_keys_bool_or(keys, "mlp_bias", false);
}

static const struct hf_form hf_arcee = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 2560,
                 .feed_forward = 18432,
                 .heads = 32,
                 .vocab_tokens = 32000,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "relu2",
    .own_keys = own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c, &(const struct dense_form){.ungated = true, .activation_alone = ACTIVATION_RELU2});
}

const struct model_family family_arcee = {
    .architecture = "arcee",
    .gguf = &gguf_arcee,
    .hf = &hf_arcee,
    .list_ops = list_ops,
};
