/*
 * Hugging Face checkpoints of LFM2 (dense): which layers attend and which convolve, and how wide
 * the feed-forward really is. `intermediate_size` (older: `block_ff_dim`) is what a plain
 * feed-forward would have; the gated one has two thirds of it, times a multiplier, rounded up.
 *
 * Source: transformers, configuration_lfm2.py and modeling_lfm2.py (Lfm2MLP).
 *
 * Refuses to do: biases of convolutions and their projections.
 */
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_recurrent.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define LFM2_ROPE_BASE 1000000.0f

static const char *const model_types[] = {"lfm2", NULL};

static const struct tensor_name names[] = {
    {"token_embd_norm.weight", "^embedding_norm.weight"},
    {"blk.*.attn_norm.weight", "^layers.*.operator_norm.weight"},
    {"blk.*.attn_q_norm.weight", "^layers.*.self_attn.q_layernorm.weight"},
    {"blk.*.attn_k_norm.weight", "^layers.*.self_attn.k_layernorm.weight"},
    {"blk.*.attn_output.weight", "^layers.*.self_attn.out_proj.weight"},
    {"blk.*.shortconv.in_proj.weight", "^layers.*.conv.in_proj.weight"},
    {"blk.*.shortconv.conv.weight", "^layers.*.conv.conv.weight"},
    {"blk.*.shortconv.out_proj.weight", "^layers.*.conv.out_proj.weight"},
    {"blk.*.ffn_norm.weight", "^layers.*.ffn_norm.weight"},
    {"blk.*.ffn_gate.weight", "^layers.*.feed_forward.w1.weight"},
    {"blk.*.ffn_up.weight", "^layers.*.feed_forward.w3.weight"},
    {"blk.*.ffn_down.weight", "^layers.*.feed_forward.w2.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", NULL};

static void read_feed_forward(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range range = {1, LIMIT_FEED_FORWARD};
    uint32_t plain = checkpoint_keys_u32_or(keys, "block_ff_dim", range, config->feed_forward);
    uint32_t multiple = checkpoint_keys_u32_or(keys, "block_multiple_of", range, 256);
    float multiplier = checkpoint_keys_f32_or(keys, "block_ffn_dim_multiplier",
                                              (struct f32_range){1e-3f, 1e3f}, 1.0f);
    config->feed_forward = plain;
    if (!checkpoint_keys_bool_or(keys, "block_auto_adjust_ff_dim", true))
        return;
    uint64_t narrow = (uint64_t)((double)multiplier * (double)(2ull * plain / 3));
    narrow = (narrow + multiple - 1) / multiple * multiple;
    if (narrow == 0 || narrow > LIMIT_FEED_FORWARD)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE,
                               "a feed-forward of %llu columns is not within 1 to %u",
                               (unsigned long long)narrow, LIMIT_FEED_FORWARD);
    else
        config->feed_forward = (uint32_t)narrow;
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config,
                                 &(const struct hf_rope_terms){.base = LFM2_ROPE_BASE});
    checkpoint_keys_expect_neutral(keys, "conv_bias", 0);
    config->tied_embeddings =
        checkpoint_keys_bool_or(keys, "tie_embedding", config->tied_embeddings);
    config->conv_taps =
        checkpoint_keys_u32_or(keys, "conv_L_cache", (struct u32_range){2, LIMIT_CONV_TAPS}, 3);
    config->conv_channels = config->hidden;
    read_feed_forward(keys, config);
    checkpoint_hf_read_layer_kinds(keys, config,
                                   &(const struct hf_recurrent_layers){.word = "conv",
                                                                       .kind = LAYER_SHORT_CONV,
                                                                       .indices = "full_attn_idxs",
                                                                       .default_period = 1});
}

const struct hf_form checkpoint_hf_lfm2 = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 2560,
                 .feed_forward = 12288,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocab_tokens = 65536,
                 .norm_epsilon = 1e-5f,
                 .tied_embeddings = true},
    .epsilon_key = "norm_eps",
    .activation_key = "hidden_act",
    .activation = "silu",
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = read_config,
};
