/*
 * Bamba and Granite 4: in each layer attention or a state space mixer, then a feed-forward part
 * (build/hybrid_blocks.h).
 *
 *   x = embedding
 *   each layer:  x += attention(norm(x)) or mix(norm(x))
 *                x += Wdown . (silu(Wgate . norm(x)) * Wup . norm(x))
 *   logits = Woutput . norm(x)
 *
 * granitemoehybrid has Granite's constant factors (granite_factors.h), and where it has experts, they are
 * beside an expert that every row uses; their weights are a softmax over the chosen scores. Most of its
 * models do not rotate. Bamba rotates half of each head.
 */
#include "worker/model/build/hybrid_blocks.h"
#include "worker/model/build/plan_builder.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/checkpoint/granite_factors.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/gguf/checkpoint_gguf_ssm.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_recurrent.h"
#include "worker/model/hf/checkpoint_hf_rope.h"
#include "worker/model/hf/checkpoint_hf_ssm.h"

#define ROPE_BASE       10000.0f
#define BAMBA_ROPE_PART 0.5f

static void use_experts(struct model_config *config, uint32_t count)
{
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].experts = count > 0;
}

static void set_ropes(struct model_config *config, uint32_t rope)
{
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].rope = rope;
}

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of the architecture granitehybrid, beyond the sizes that all families have: which layers
 * attend (those with key-value heads), the factors of Granite, whether attention rotates
 * (rope.scaling.finetuned), and the experts, whose width is that of feed_forward_length.
 *
 * Converters write Bamba under the same name and permute whole heads for adjacent pairs, although it
 * rotates half of each; such files are refused.
 *
 * Source: llama.cpp, conversion/granite.py and src/models/granite-hybrid.cpp.
 */
static const char *const gguf_own_keys[] = {
    "logit_scale",  "residual_scale",          "embedding_scale",
    "expert_count", "attention.head_count_kv", NULL};

static void gguf_read_experts(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t count =
        checkpoint_keys_u32_or(keys, "expert_count", (struct u32_range){0, LIMIT_EXPERTS}, 0);
    if (count == 0)
        return;
    config->experts = (struct expert_config){
        .count = count,
        .chosen = checkpoint_keys_u32(keys, "expert_used_count",
                                      (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}),
        .feed_forward = config->feed_forward,
        .shared = checkpoint_keys_u32_or(keys, "expert_shared_feed_forward_length",
                                         (struct u32_range){0, LIMIT_FEED_FORWARD}, 0),
    };
    checkpoint_settle_experts(keys, config);
    use_experts(config, count);
}

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t first = checkpoint_gguf_read_attending(keys, LAYER_SSM, config);
    checkpoint_gguf_read_ssm(keys, first, config);
    bool rotates = checkpoint_keys_bool_or(keys, "rope.scaling.finetuned", true);
    if (rotates) {
        config->rope_count = 1;
        config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
        checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
        if (keys->result == RESULT_OK && config->ropes[0].dims != config->head_dim)
            checkpoint_keys_refuse(
                keys, RESULT_UNSUPPORTED,
                "rope.dimension_count %u of heads of %u: their rows are permuted "
                "as for whole heads",
                config->ropes[0].dims, config->head_dim);
    }
    set_ropes(config, rotates ? 0 : ROPE_NONE);
    granite_factors_read_gguf(keys, granite_no_factors, config);
    gguf_read_experts(keys, config);
}

static const struct gguf_form gguf_granite_hybrid = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * Hugging Face checkpoints of Bamba. Layers attend that attn_layer_indices lists; half of a head is
 * rotated, whatever the config says.
 *
 * Source: transformers, configuration_bamba.py and modeling_bamba.py.
 */
static const char *const bamba_model_types[] = {"bamba", NULL};
static const char *const bamba_own_keys[] = {"attention_bias", "mlp_bias", "partial_rotary_factor",
                                             NULL};
static const char *const prefixes[] = {"model.", NULL};

static void bamba_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_layer_kinds(
        keys, config,
        &(const struct hf_recurrent_layers){.word = "linear_attention",
                                            .kind = LAYER_SSM,
                                            .indices = "attn_layer_indices",
                                            .default_period = LIMIT_LAYERS + 1});
    checkpoint_hf_read_only_rope(
        keys, config,
        &(const struct hf_rope_terms){.base = ROPE_BASE, .partial = true, .part = BAMBA_ROPE_PART});
    checkpoint_hf_read_biases(keys, config);
    config->feed_forward_bias = checkpoint_keys_bool_or(keys, "mlp_bias", false);
    checkpoint_hf_read_ssm(keys, &checkpoint_hf_bamba_ssm, config);
}

static const struct hf_form hf_bamba = {
    .model_types = bamba_model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 14336,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocab_tokens = 128000,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = bamba_own_keys,
    .naming = {checkpoint_hf_bamba_names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = bamba_read_config,
};

/*
 * Hugging Face checkpoints of Granite 4. intermediate_size is the width of an expert,
 * shared_intermediate_size that of the one that every row uses, or without experts (num_local_experts 0)
 * of the feed-forward part. Gate and up are one matrix.
 *
 * Source: transformers, configuration_granitemoehybrid.py, modeling_granitemoehybrid.py and
 * conversion_mapping.py for the stored names.
 */
#define DEFAULT_SHARED 1024u

static const char *const granite_model_types[] = {"granitemoehybrid", NULL};
static const char *const granite_own_keys[] = {"attention_bias", "num_local_experts", NULL};

static const struct tensor_name granite_names[] = {
    {"blk.*.ffn_gate_inp.weight", "^layers.*.block_sparse_moe.router.layer.weight"},
    {"blk.*.ffn_gate_up_exps.weight", "^layers.*.block_sparse_moe.input_linear.weight"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.block_sparse_moe.output_linear.weight"},
    {"blk.*.ffn_gate_up_shexp.weight", "^layers.*.shared_mlp.input_linear.weight"},
    {"blk.*.ffn_down_shexp.weight", "^layers.*.shared_mlp.output_linear.weight"},
    {"blk.*.ffn_up.weight", "^layers.*.shared_mlp.input_linear.weight"},
    {"blk.*.ffn_down.weight", "^layers.*.shared_mlp.output_linear.weight"},
    HF_SSM_NAMES("mamba."),
    {NULL, NULL},
};

static void granite_read_experts(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t count =
        checkpoint_keys_u32_or(keys, "num_local_experts", (struct u32_range){0, LIMIT_EXPERTS}, 8);
    uint32_t shared =
        checkpoint_keys_u32_or(keys, "shared_intermediate_size",
                               (struct u32_range){1, LIMIT_FEED_FORWARD}, DEFAULT_SHARED);
    config->experts = (struct expert_config){
        .count = count,
        .chosen = checkpoint_keys_u32_or(keys, "num_experts_per_tok",
                                         (struct u32_range){0, LIMIT_EXPERTS_CHOSEN}, 2),
        .feed_forward = config->feed_forward,
        .shared = shared,
    };
    if (count > 0 && config->experts.chosen == 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "num_experts_per_tok is 0 of %u", count);
    if (count == 0)
        config->feed_forward = shared;
    checkpoint_settle_experts(keys, config);
    use_experts(config, count);
}

static void granite_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_layer_kinds(
        keys, config,
        &(const struct hf_recurrent_layers){.word = "linear_attention",
                                            .older_word = "mamba",
                                            .kind = LAYER_SSM,
                                            .default_period = LIMIT_LAYERS + 1});
    struct gguf_string positions = checkpoint_keys_string_or_empty(keys, "position_embedding_type");
    bool rotates = checkpoint_keys_is(positions, "rope");
    if (positions.length > 0 && !rotates && !checkpoint_keys_is(positions, "nope"))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "position_embedding_type is neither \"rope\" nor \"nope\"");
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    set_ropes(config, rotates ? 0 : ROPE_NONE);
    checkpoint_hf_read_biases(keys, config);
    checkpoint_hf_read_ssm(keys, &checkpoint_hf_bamba_ssm, config);
    granite_factors_read_hf(keys, config);
    granite_read_experts(keys, config);
}

static const struct hf_form hf_granite_hybrid = {
    .model_types = granite_model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 32000,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = granite_own_keys,
    .naming = {granite_names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = granite_read_config,
};

/* --- ops and rows ----------------------------------------------------------------------------- */

static plan_tensor_id list_bamba_ops(struct plan_builder *b, const struct model_config *c)
{
    return hybrid_blocks_list(b, c, &(const struct hybrid_form){.single = false});
}

static plan_tensor_id list_granite_ops(struct plan_builder *b, const struct model_config *c)
{
    return hybrid_blocks_list(
        b, c,
        &(const struct hybrid_form){
            .dense = {.joined_gate_up = !plan_builder_has(b, "blk.0.ffn_gate.weight"),
                      .experts = {.softmax_chosen = true, .gate = {.activation = GATE_SILU}}}});
}

const struct model_family family_bamba = {
    .architecture = "bamba",
    .hf = &hf_bamba,
    .list_ops = list_bamba_ops,
};

const struct model_family family_granite_hybrid = {
    .architecture = "granitehybrid",
    .gguf = &gguf_granite_hybrid,
    .hf = &hf_granite_hybrid,
    .list_ops = list_granite_ops,
};
