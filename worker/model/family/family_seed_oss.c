/*
 * Seed-OSS: llama with biases of q, k and v, and in some checkpoints of attention's output and of
 * the feed-forward part.
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
 * GGUF metadata of the seed_oss architecture, beyond the sizes that all families have: one rotary
 * embedding over the halves of a head. Tensors tell which biases there are. The norm before the
 * feed-forward part has the name post_attention_norm.
 */
static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_gguf_read_biases(keys, config);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
}

static const struct gguf_form gguf_seed_oss = {
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Seed-OSS. attention_bias is true by default and does not include
 * attention's output, which has attention_out_bias.
 *
 * Source: transformers, configuration_seed_oss.py and modeling_seed_oss.py.
 */
static const char *const model_types[] = {"seed_oss", NULL};
static const char *const own_keys[] = {"attention_bias", "mlp_bias", NULL};
static const char *const prefixes[] = {"model.", NULL};
static const struct tensor_name names[] = {
    {"blk.*.post_attention_norm.weight", "^layers.*.post_attention_layernorm.weight"},
    {NULL, NULL},
};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->attention_bias = checkpoint_keys_bool_or(keys, "attention_bias", true);
    config->output_bias = checkpoint_keys_bool_or(keys, "attention_out_bias", false);
    config->feed_forward_bias = checkpoint_keys_bool_or(keys, "mlp_bias", false);
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
}

static const struct hf_form hf_seed_oss = {
    .model_types = model_types,
    .defaults = {.layers = 64,
                 .hidden = 4096,
                 .feed_forward = 27648,
                 .heads = 80,
                 .kv_heads = 8,
                 .head_dim = 128,
                 .vocab_tokens = 155136,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c, &(const struct dense_form){.feed_forward_norm = "post_attention_norm"});
}

const struct model_family family_seed_oss = {
    .architecture = "seed_oss",
    .gguf = &gguf_seed_oss,
    .hf = &hf_seed_oss,
    .list_ops = list_ops,
};
