/*
 * StableLM 1 and 2: the dense decoder with layer norms, of which a part of each head rotates. In
 * some models both halves of a layer read the same normed row.
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
 * GGUF metadata of the stablelm architecture, beyond the sizes that all families have: one rotary
 * embedding over the halves of the first part of each head. The key use_parallel_residual is not to
 * be believed, since converters wrote true where the config said nothing; whether the halves read
 * the same row follows from the tensors.
 */
static const char *const gguf_own_keys[] = {"use_parallel_residual", NULL};

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->attention_bias = gguf_file_find_tensor(keys->file, "blk.0.attn_q.bias") != NULL;
    config->parallel_halves = gguf_file_find_tensor(keys->file, "blk.0.ffn_norm.weight") == NULL;
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
}

static const struct gguf_form gguf_stablelm = {
    .epsilon_key = "attention.layer_norm_epsilon",
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of StableLM.
 *
 * Source: transformers, configuration_stablelm.py and modeling_stablelm.py.
 */
static const char *const model_types[] = {"stablelm", NULL};
static const char *const own_keys[] = {"partial_rotary_factor", NULL};
static const char *const prefixes[] = {"model.", NULL};
static const struct hf_rope_terms rope_terms = {.base = ROPE_BASE, .partial = true, .part = 0.25f};

static const struct tensor_name names[] = {
    {"output_norm.bias", "^norm.bias"},
    {"blk.*.attn_norm.bias", "^layers.*.input_layernorm.bias"},
    {"blk.*.ffn_norm.bias", "^layers.*.post_attention_layernorm.bias"},
    {NULL, NULL},
};

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "qk_layernorm", 0);
    config->attention_bias = checkpoint_keys_bool_or(keys, "use_qkv_bias", false);
    config->parallel_halves = checkpoint_keys_bool_or(keys, "use_parallel_residual", false);
    checkpoint_hf_read_only_rope(keys, config, &rope_terms);
}

static const struct hf_form hf_stablelm = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 2560,
                 .feed_forward = 6912,
                 .heads = 32,
                 .kv_heads = 32,
                 .vocab_tokens = 50304,
                 .norm_epsilon = 1e-5f},
    .epsilon_key = "layer_norm_eps",
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(b, c,
                             &(const struct dense_form){.layer_norms = true,
                                                        .norm_biases = true,
                                                        .parallel = c->parallel_halves});
}

const struct model_family family_stablelm = {
    .architecture = "stablelm",
    .gguf = &gguf_stablelm,
    .hf = &hf_stablelm,
    .list_ops = list_ops,
};
