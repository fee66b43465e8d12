/*
 * Granite 3, dense and with experts, and MiniCPM: llama with constant factors
 * (checkpoint/granite_factors.h).
 */
#include <math.h>

#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/checkpoint/granite_factors.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE 10000.0f

/* Every layer has the experts that the config states. */
static void use_experts(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_settle_experts(keys, config);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].experts = true;
}

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of these architectures, beyond the sizes that all families have: the factors
 * (logit_scale is the divisor), and one rotary embedding over adjacent pairs, because rows are
 * permuted as in llama.
 *
 * granitemoe: every layer has experts, whose width is that of feed_forward_length. Files with an
 * expert that every row uses have the same architecture name; they are refused.
 *
 * minicpm: older files lack the factors, which are then those of MiniCPM-2B.
 *
 * Source: llama.cpp, src/models/minicpm.cpp and its converter.
 */
#define MINICPM_EMBEDDING 12.0f
#define MINICPM_DEPTH     1.4f
#define MINICPM_BASE      256.0f /* of the logits' divisor, hidden / base */

static const char *const gguf_own_keys[] = {"logit_scale", "residual_scale", "embedding_scale",
                                            NULL};
static const char *const gguf_moe_own_keys[] = {"logit_scale", "residual_scale", "embedding_scale",
                                                "expert_count", NULL};

static void gguf_read_factors(struct checkpoint_keys *keys, struct granite_factors absent,
                              struct model_config *config)
{
    checkpoint_gguf_read_biases(keys, config);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_ADJACENT;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
    granite_factors_read_gguf(keys, absent, config);
}

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    gguf_read_factors(keys, granite_no_factors, config);
}

static void gguf_read_moe_config(struct checkpoint_keys *keys, struct model_config *config)
{
    gguf_read_factors(keys, granite_no_factors, config);
    checkpoint_keys_expect_neutral(keys, "expert_shared_feed_forward_length", 0);
    config->experts = (struct expert_config){
        .count = checkpoint_keys_u32(keys, "expert_count", (struct u32_range){1, LIMIT_EXPERTS}),
        .chosen = checkpoint_keys_u32(keys, "expert_used_count",
                                      (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}),
        .feed_forward = config->feed_forward,
    };
    use_experts(keys, config);
}

static void gguf_read_minicpm_config(struct checkpoint_keys *keys, struct model_config *config)
{
    gguf_read_factors(
        keys,
        (struct granite_factors){.embedding = MINICPM_EMBEDDING,
                                 .residual = MINICPM_DEPTH / sqrtf((float)config->layers),
                                 .logits = (float)config->hidden / MINICPM_BASE},
        config);
}

static const struct gguf_form gguf_granite = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_config,
};

static const struct gguf_form gguf_granite_moe = {
    .own_keys = gguf_moe_own_keys,
    .read_config = gguf_read_moe_config,
};

static const struct gguf_form gguf_minicpm = {
    .own_keys = gguf_own_keys,
    .read_config = gguf_read_minicpm_config,
};

/* --- config.json: granite --------------------------------------------------------------------- */

/*
 * Hugging Face checkpoints of Granite. attention_multiplier is the scale of scores itself, 1 by
 * default.
 *
 * Source: transformers, configuration_granite.py and modeling_granite.py.
 */
static const char *const model_types[] = {"granite", NULL};
static const char *const own_keys[] = {"attention_bias", "mlp_bias", NULL};
static const char *const prefixes[] = {"model.", NULL};

static void hf_read_factors(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    checkpoint_hf_read_biases(keys, config);
    granite_factors_read_hf(keys, config);
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    hf_read_factors(keys, config);
    config->feed_forward_bias = checkpoint_keys_bool_or(keys, "mlp_bias", false);
}

static const struct hf_form hf_granite = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 32000,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = hf_read_config,
};

/* --- config.json: granitemoe ------------------------------------------------------------------ */

/*
 * intermediate_size is the width of an expert. Gate and up are one stack, input_linear.
 *
 * Source: transformers, configuration_granitemoe.py, modeling_granitemoe.py and
 * conversion_mapping.py for the stored names.
 */
static const char *const moe_model_types[] = {"granitemoe", NULL};
static const char *const moe_own_keys[] = {"attention_bias", "num_local_experts", NULL};
static const struct tensor_name moe_names[] = {
    {"blk.*.ffn_gate_inp.weight", "^layers.*.block_sparse_moe.router.layer.weight"},
    {"blk.*.ffn_gate_up_exps.weight", "^layers.*.block_sparse_moe.input_linear.weight"},
    {"blk.*.ffn_down_exps.weight", "^layers.*.block_sparse_moe.output_linear.weight"},
    {NULL, NULL},
};

static void hf_read_moe_config(struct checkpoint_keys *keys, struct model_config *config)
{
    hf_read_factors(keys, config);
    config->experts = (struct expert_config){
        .count = checkpoint_keys_u32_or(keys, "num_local_experts",
                                        (struct u32_range){1, LIMIT_EXPERTS}, 8),
        .chosen = checkpoint_keys_u32_or(keys, "num_experts_per_tok",
                                         (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}, 2),
        .feed_forward = config->feed_forward,
    };
    use_experts(keys, config);
}

static const struct hf_form hf_granite_moe = {
    .model_types = moe_model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 32000,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = moe_own_keys,
    .naming = {moe_names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_moe_config,
};

/* --- config.json: minicpm --------------------------------------------------------------------- */

/*
 * MiniCPM 1, 2 and 4 of OpenBMB: the factors are reckoned from scale_emb, scale_depth and
 * dim_model_base. Configs of the first models lack model_type. Attention over chosen blocks (sparse_config) is refused.
 *
 * Source: configuration_minicpm.py and modeling_minicpm.py in OpenBMB's repositories.
 */
static const char *const minicpm_model_types[] = {"minicpm", NULL};
static const char *const minicpm_own_keys[] = {"attention_bias", NULL};

static void hf_read_minicpm_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range base_range = {1, LIMIT_HIDDEN};
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    checkpoint_hf_read_biases(keys, config);
    if (!json_value_member_is_null(keys->object, "sparse_config") &&
        json_value_type(json_value_member(keys->object, "sparse_config")) != JSON_ABSENT)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "key sparse_config is not supported");
    float depth = checkpoint_keys_f32_or(keys, "scale_depth", granite_factor_range, 1.0f);
    uint32_t base = checkpoint_keys_u32_or(keys, "dim_model_base", base_range, 1);
    granite_factors_apply(
        (struct granite_factors){
            .embedding = checkpoint_keys_f32_or(keys, "scale_emb", granite_factor_range, 1.0f),
            .residual = depth / sqrtf((float)config->layers),
            .logits = (float)config->hidden / (float)base,
        },
        config);
}

static const struct hf_form hf_minicpm = {
    .model_types = minicpm_model_types,
    .class_name = "MiniCPMForCausalLM",
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 32000,
                 .norm_epsilon = 1e-6f,
                 .tied_embeddings = true},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = minicpm_own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, NULL},
    .read_config = hf_read_minicpm_config,
};

/* --- ops and rows ----------------------------------------------------------------------------- */

static plan_tensor_id list_moe_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c,
        &(const struct dense_form){
            .experts = {.softmax_chosen = true, .gate = {.activation = GATE_SILU}}});
}

const struct model_family family_granite = {
    .architecture = "granite",
    .gguf = &gguf_granite,
    .hf = &hf_granite,
    .list_ops = dense_blocks_list_plain,
};

const struct model_family family_granite_moe = {
    .architecture = "granitemoe",
    .gguf = &gguf_granite_moe,
    .hf = &hf_granite_moe,
    .list_ops = list_moe_ops,
};

const struct model_family family_minicpm = {
    .architecture = "minicpm",
    .gguf = &gguf_minicpm,
    .hf = &hf_minicpm,
    .list_ops = dense_blocks_list_plain,
};
