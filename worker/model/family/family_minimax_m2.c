/*
 * MiniMax M2: the decoder of llama with norms of all query heads as one and of all key heads, the first part
 * of each head rotated over halves, and experts in every layer, chosen by sigmoid and a bias.
 */
#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_experts.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_experts.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE 5000000.0f

/* --- GGUF ------------------------------------------------------------------------------------- */

/* Source: llama.cpp, conversion/minimax.py and src/models/minimax-m2.cpp. */
static const char *const gguf_own_keys[] = {GGUF_EXPERT_KEYS, NULL};

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    static const struct gguf_expert_terms terms = {.sigmoid = true, .normalized = true};
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
    checkpoint_gguf_read_experts(keys, &terms, config);
}

static const struct gguf_form gguf_minimax_m2 = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * intermediate_size is the width of an expert. Published configs state the rotated dimensions as rotary_dim;
 * theirs and transformers' own names of tensors differ.
 *
 * Source: transformers, configuration_minimax_m2.py, modeling_minimax_m2.py and conversion_mapping.py.
 */
static const char *const model_types[] = {"minimax_m2", NULL};
static const char *const own_keys[] = {"num_local_experts", "num_experts", "partial_rotary_factor",
                                       NULL};
static const char *const prefixes[] = {"model.", NULL};

static const struct tensor_name names[] = {
    {"blk.*.exp_probs_b.bias", "^layers.*.block_sparse_moe.e_score_correction_bias"},
    {"blk.*.exp_probs_b.bias", "^layers.*.mlp.e_score_correction_bias"},
    {"blk.*.ffn_gate_inp.weight", "^layers.*.block_sparse_moe.gate.weight"},
    {"blk.*.ffn_gate_inp.weight", "^layers.*.mlp.gate.weight"},
    {"blk.*.ffn_gate.*.weight", "^layers.*.block_sparse_moe.experts.*.w1.weight"},
    {"blk.*.ffn_up.*.weight", "^layers.*.block_sparse_moe.experts.*.w3.weight"},
    {"blk.*.ffn_down.*.weight", "^layers.*.block_sparse_moe.experts.*.w2.weight"},
    {"blk.*.ffn_gate_exps.weight", "^layers.*.block_sparse_moe.switch_mlp.gate_proj.weight"},
    {"blk.*.ffn_up_exps.weight", "^layers.*.block_sparse_moe.switch_mlp.up_proj.weight"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.block_sparse_moe.switch_mlp.down_proj.weight"},
    {"blk.*.ffn_gate_up_exps.weight", "^layers.*.mlp.experts.gate_up_proj"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.mlp.experts.down_proj"},
    {NULL, NULL},
};

static void check_words(struct checkpoint_keys *keys)
{
    static const char *const words[][2] = {{"scoring_func", "sigmoid"},
                                           {"qk_norm_type", "per_layer"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct gguf_string word = checkpoint_keys_string_or_empty(keys, words[i][0]);
        if (word.length > 0 && !checkpoint_keys_is(word, words[i][1]))
            checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "%s \"%.*s\" is not supported",
                                   words[i][0], (int)(word.length < 64 ? word.length : 64),
                                   word.bytes);
    }
    checkpoint_keys_expect_neutral(keys, "use_qk_norm", 1);
    checkpoint_keys_expect_neutral(keys, "use_routing_bias", 1);
    checkpoint_keys_expect_neutral(keys, "shared_intermediate_size", 0);
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range counts = {1, LIMIT_EXPERTS}, chosen = {1, LIMIT_EXPERTS_CHOSEN};
    check_words(keys);
    uint32_t rotated = checkpoint_keys_u32_or(
        keys, "rotary_dim", (struct u32_range){2, config->head_dim}, config->head_dim);
    checkpoint_hf_read_only_rope(
        keys, config,
        &(const struct hf_rope_terms){
            .base = ROPE_BASE, .partial = true, .part = (float)rotated / (float)config->head_dim});
    config->experts = (struct expert_config){
        .count = checkpoint_keys_u32_or(keys, "num_local_experts", counts, 256),
        .chosen = checkpoint_keys_u32_or(keys, "num_experts_per_tok", chosen, 8),
        .feed_forward = config->feed_forward,
        .weighed = true,
        .sigmoid = true,
        .choice_bias = true,
        .normalized = true,
    };
    checkpoint_settle_experts(keys, config);
    checkpoint_hf_use_experts(config, 0);
}

static const struct hf_form hf_minimax_m2 = {
    .model_types = model_types,
    .defaults = {.layers = 62,
                 .hidden = 3072,
                 .feed_forward = 1536,
                 .heads = 48,
                 .kv_heads = 8,
                 .head_dim = 128,
                 .vocab_tokens = 200064,
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
        b, c,
        &(const struct dense_form){.whole_norms = true,
                                   .experts = {.gate = {.activation = GATE_SILU}}});
}

const struct model_family family_minimax_m2 = {
    .architecture = "minimax-m2",
    .gguf = &gguf_minimax_m2,
    .hf = &hf_minimax_m2,
    .list_ops = list_ops,
};
