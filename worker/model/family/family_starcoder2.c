/*
 * StarCoder2: the dense decoder with layer norms, biases of all matrices, and a feed-forward part
 * without a gate whose activation is gelu. All layers have the same window, if the config states
 * one.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_layers.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE 10000.0f

static void set_windows(struct model_config *config, uint32_t window)
{
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].window = window;
}

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the starcoder2 architecture, beyond the sizes that all families have: one rotary
 * embedding over the halves of a head. Converters do not write the window; a file that states one
 * has it.
 */
static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_gguf_read_biases(keys, config);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
    set_windows(config, checkpoint_gguf_window(keys, config, false));
}

static const struct gguf_form gguf_starcoder2 = {
    .epsilon_key = "attention.layer_norm_epsilon",
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of StarCoder2. use_bias is for all matrices of the layers; norms always
 * have a bias.
 *
 * Source: transformers, configuration_starcoder2.py and modeling_starcoder2.py.
 */
static const char *const model_types[] = {"starcoder2", NULL};
static const char *const prefixes[] = {"model.", NULL};

static const struct tensor_name names[] = {
    {"output_norm.bias", "^norm.bias"},
    {"blk.*.attn_norm.bias", "^layers.*.input_layernorm.bias"},
    {"blk.*.ffn_norm.bias", "^layers.*.post_attention_layernorm.bias"},
    {"blk.*.ffn_up.weight", "^layers.*.mlp.c_fc.weight"},
    {"blk.*.ffn_up.bias", "^layers.*.mlp.c_fc.bias"},
    {"blk.*.ffn_down.weight", "^layers.*.mlp.c_proj.weight"},
    {"blk.*.ffn_down.bias", "^layers.*.mlp.c_proj.bias"},
    {NULL, NULL},
};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    bool biases = checkpoint_keys_bool_or(keys, "use_bias", true);
    config->attention_bias = biases;
    config->output_bias = biases;
    config->feed_forward_bias = biases;
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    set_windows(config, checkpoint_hf_window(keys, config, 0));
}

static const struct hf_form hf_starcoder2 = {
    .model_types = model_types,
    .defaults = {.layers = 30,
                 .hidden = 3072,
                 .feed_forward = 12288,
                 .heads = 24,
                 .kv_heads = 2,
                 .vocab_tokens = 49152,
                 .norm_epsilon = 1e-5f,
                 .tied_embeddings = true},
    .epsilon_key = "norm_epsilon",
    .activation_key = "hidden_act",
    .activation = "gelu_pytorch_tanh",
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c,
                             &(const struct dense_form){.layer_norms = true,
                                                        .norm_biases = true,
                                                        .ungated = true,
                                                        .activation_alone = ACTIVATION_GELU_TANH});
}

const struct model_family family_starcoder2 = {
    .architecture = "starcoder2",
    .gguf = &gguf_starcoder2,
    .hf = &hf_starcoder2,
    .list_ops = list_ops,
};
