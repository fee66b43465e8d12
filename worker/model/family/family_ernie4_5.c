/*
 * ERNIE 4.5, the dense models: llama with queries and keys rotated in adjacent pairs, and biases of all
 * matrices of the layers or of none.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE 500000.0f

/* --- GGUF ------------------------------------------------------------------------------------- */

/* GGUF metadata of the ernie4_5 architecture: rows are not permuted, since pairs are adjacent already. */
static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_gguf_read_biases(keys, config);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
}

static const struct gguf_form gguf_ernie4_5 = {
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/* Source: transformers, configuration_ernie4_5.py and modeling_ernie4_5.py. */
static const char *const model_types[] = {"ernie4_5", NULL};
static const char *const own_keys[] = {"use_bias", NULL};
static const char *const prefixes[] = {"model.", NULL};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    bool biases = checkpoint_keys_bool_or(keys, "use_bias", false);
    config->attention_bias = config->output_bias = config->feed_forward_bias = biases;
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
}

static const struct hf_form hf_ernie4_5 = {
    .model_types = model_types,
    .defaults = {.layers = 18,
                 .hidden = 1024,
                 .feed_forward = 3072,
                 .heads = 16,
                 .kv_heads = 2,
                 .head_dim = 128,
                 .vocab_tokens = 103424,
                 .norm_epsilon = 1e-5f,
                 .tied_embeddings = true},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = hf_read_config,
};

const struct model_family family_ernie4_5 = {
    .architecture = "ernie4_5",
    .gguf = &gguf_ernie4_5,
    .hf = &hf_ernie4_5,
    .list_ops = dense_blocks_list_plain,
};
