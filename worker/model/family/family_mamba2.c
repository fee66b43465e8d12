/*
 * The forward pass of Mamba 2: each layer is a norm and a state space mixer (build/ssm_blocks.h).
 *
 *   x = embedding
 *   each layer:  x += mix(norm(x))
 *   logits = Woutput . norm(x)
 *
 * No layer attends.
 */
#include "worker/model/build/hybrid_blocks.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_ssm.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_ssm.h"

static void use_mixers(struct model_config *config)
{
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.kind = LAYER_SSM, .rope = ROPE_NONE};
}

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the architecture mamba2, beyond the sizes that all families have. Converters write
 * 0 heads and 0 columns of a feed-forward part, and a context of 2^20 that they call arbitrary.
 *
 * Source: llama.cpp, conversion/mamba.py.
 */
static const char *const gguf_own_keys[] = {"attention.head_count", "feed_forward_length", NULL};

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->heads = config->kv_heads = config->head_dim = 1;
    config->feed_forward = 1;
    use_mixers(config);
    checkpoint_gguf_read_ssm(keys, 0, config);
}

static const struct gguf_form gguf_mamba2 = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Mamba 2. head_dim is that of a mixer.
 *
 * Source: transformers, configuration_mamba2.py and modeling_mamba2.py.
 */
static const char *const model_types[] = {"mamba2", NULL};
static const char *const prefixes[] = {"backbone.", "model.backbone.", NULL};

static const struct tensor_name names[] = {
    {"token_embd.weight", "^embeddings.weight"},
    {"output_norm.weight", "^norm_f.weight"},
    {"output.weight", "lm_head.weight"},
    {"blk.*.attn_norm.weight", "^layers.*.norm.weight"},
    HF_SSM_NAMES("mixer."),
    {NULL, NULL},
};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    static const struct hf_ssm_terms terms = {
        .heads = "num_heads",
        .head_dim = "head_dim",
        .expand = "expand",
        .groups = "n_groups",
        .state = "state_size",
        .taps = "conv_kernel",
        .conv_bias = "use_conv_bias",
        .in_bias = "use_bias",
        .out_bias = "use_bias",
        .default_heads = 128,
        .default_head_dim = 64,
        .default_groups = 8,
        .default_state = 128,
    };
    use_mixers(config);
    checkpoint_hf_read_ssm(keys, &terms, config);
}

static const struct hf_form hf_mamba2 = {
    .model_types = model_types,
    .defaults = {.layers = 64,
                 .hidden = 4096,
                 .feed_forward = 1,
                 .heads = 1,
                 .head_dim = 64,
                 .vocab_tokens = 32768,
                 .norm_epsilon = 1e-5f},
    .epsilon_key = "layer_norm_epsilon",
    .activation_key = "hidden_act",
    .activation = "silu",
    .naming = {names, NULL, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return hybrid_blocks_list(b, c, &(const struct hybrid_form){.single = true});
}

const struct model_family family_mamba2 = {
    .architecture = "mamba2",
    .gguf = &gguf_mamba2,
    .hf = &hf_mamba2,
    .list_ops = list_ops,
};
