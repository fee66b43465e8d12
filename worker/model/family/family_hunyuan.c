/*
 * Hunyuan 1, dense and with experts: the decoder of llama with norms of heads after the rotation. Every row
 * uses an expert beside those that are chosen by the softmax of their scores.
 */
#include <math.h>

#include "worker/model/build/dense_blocks.h"
#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_experts.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_experts.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define ROPE_BASE 10000.0f

/* --- GGUF ------------------------------------------------------------------------------------- */

/*
 * GGUF metadata of hunyuan-dense and hunyuan-moe: the converter has put alpha into the base of the rotation.
 *
 * Source: llama.cpp, conversion/hunyuan.py and src/models/hunyuan-moe.cpp.
 */
static const char *const gguf_moe_own_keys[] = {GGUF_EXPERT_KEYS, NULL};

static void gguf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_gguf_read_biases(keys, config);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, ROPE_BASE, &config->ropes[0]);
}

static void gguf_read_moe(struct checkpoint_keys *keys, struct model_config *config)
{
    gguf_read_config(keys, config);
    checkpoint_gguf_read_experts(keys, &(const struct gguf_expert_terms){.normalized = true},
                                 config);
}

static const struct gguf_form gguf_hunyuan = {
    .read_config = gguf_read_config,
};

static const struct gguf_form gguf_hunyuan_moe = {
    .own_keys = gguf_moe_own_keys,
    .read_config = gguf_read_moe,
};

/* --- config.json ------------------------------------------------------------------------------ */

/*
 * The kind "dynamic" with alpha means a base of alpha^(d / (d - 2)) times the stated one, whatever the context.
 * Counts may be lists with an element for each layer, which must be equal.
 *
 * Source: transformers, modeling_hunyuan_v1_dense.py and modeling_hunyuan_v1_moe.py with their configuration
 * files; for keys that these ignore, the modeling_hunyuan.py that tencent publishes.
 */
static const char *const model_types[] = {"hunyuan_v1_dense", NULL};
static const char *const moe_model_types[] = {"hunyuan_v1_moe", NULL};
static const char *const own_keys[] = {"attention_bias", "num_experts", NULL};
static const char *const moe_own_keys[] = {"attention_bias", "num_experts", "num_local_experts",
                                           NULL};
static const char *const prefixes[] = {"model.", NULL};

static const struct tensor_name names[] = {
    {"blk.*.attn_q_norm.weight", "^layers.*.self_attn.query_layernorm.weight"},
    {"blk.*.attn_k_norm.weight", "^layers.*.self_attn.key_layernorm.weight"},
    {"blk.*.ffn_gate_inp.weight", "^layers.*.mlp.gate.wg.weight"},
    {"blk.*.ffn_gate_shexp.weight", "^layers.*.mlp.shared_mlp.gate_proj.weight"},
    {"blk.*.ffn_up_shexp.weight", "^layers.*.mlp.shared_mlp.up_proj.weight"},
    {"blk.*.ffn_down_shexp.weight", "^layers.*.mlp.shared_mlp.down_proj.weight"},
    {NULL, NULL},
};

/* A number, or a list of equal ones. */
static uint32_t read_count(struct checkpoint_keys *keys, const char *name, struct u32_range range,
                           const struct model_config *config, uint32_t absent)
{
    uint32_t each[LIMIT_LAYERS];
    if (!checkpoint_keys_u32_each(keys, name, range, config->layers, each))
        return absent;
    for (uint32_t layer = 1; layer < config->layers; layer++)
        if (each[layer] != each[0])
            checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "%s differs between layers", name);
    return each[0];
}

/* Whether the rotary embedding is of the kind with alpha; if so, sets it. */
static bool read_alpha(struct checkpoint_keys *keys, struct model_config *config)
{
    struct f32_range bases = {1.0f, 1e12f};
    struct checkpoint_keys scaling = checkpoint_keys_enter(keys, "rope_parameters");
    if (json_value_type(scaling.object) == JSON_ABSENT && scaling.result == RESULT_OK)
        scaling = checkpoint_keys_enter(keys, "rope_scaling");
    struct gguf_string type = checkpoint_keys_string_or_empty(&scaling, "rope_type");
    if (type.length == 0)
        type = checkpoint_keys_string_or_empty(&scaling, "type");
    float alpha = checkpoint_keys_f32_or(&scaling, "alpha", (struct f32_range){1.0f, 1e6f}, 0.0f);
    float base = checkpoint_keys_f32_or(keys, "rope_theta", bases, ROPE_BASE);
    base = checkpoint_keys_f32_or(&scaling, "rope_theta", bases, base);
    bool stretched = alpha > 0.0f && checkpoint_keys_is(type, "dynamic");
    uint32_t dims = config->head_dim;
    checkpoint_keys_leave(keys, &scaling);
    if (stretched && (dims % 2 != 0 || dims < 4))
        checkpoint_keys_refuse(keys, RESULT_INVALID, "heads of %u columns cannot rotate", dims);
    if (!stretched || keys->result != RESULT_OK)
        return false;
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    config->ropes[0].dims = dims;
    double factor = pow((double)alpha, (double)dims / (dims - 2));
    checkpoint_plain_rope(&config->ropes[0], (float)((double)base * factor), 1.0f);
    return true;
}

static void hf_read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "use_qk_norm", 1);
    checkpoint_keys_expect_neutral(keys, "use_cla", 0);
    checkpoint_hf_read_biases(keys, config);
    if (!read_alpha(keys, config))
        checkpoint_hf_read_only_rope(keys, config,
                                     &(const struct hf_rope_terms){.base = ROPE_BASE});
}

/* Configs of small models state one expert, and mean none. */
static void hf_read_dense(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "num_experts", 1);
    hf_read_config(keys, config);
}

static void hf_read_moe(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range wide = {1, LIMIT_FEED_FORWARD}, counts = {1, LIMIT_EXPERTS};
    struct u32_range chosen = {1, LIMIT_EXPERTS_CHOSEN};
    hf_read_config(keys, config);
    config->experts = (struct expert_config){
        .count = read_count(keys, "num_experts", counts, config, 1),
        .chosen = read_count(keys, "moe_topk", chosen, config, 1),
        .feed_forward =
            read_count(keys, "moe_intermediate_size", wide, config, config->feed_forward),
        .weighed = true,
        .normalized = true,
    };
    uint64_t shared =
        (uint64_t)config->feed_forward * read_count(keys, "num_shared_expert", counts, config, 1);
    if (shared > LIMIT_FEED_FORWARD)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "shared experts of %llu columns",
                               (unsigned long long)shared);
    config->experts.shared = (uint32_t)shared;
    checkpoint_settle_experts(keys, config);
    checkpoint_hf_use_experts(config, 0);
}

static const struct hf_form hf_hunyuan = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 290943,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_dense,
};

static const struct hf_form hf_hunyuan_moe = {
    .model_types = moe_model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 290943,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = moe_own_keys,
    .naming = {names, checkpoint_hf_usual_names, prefixes, NULL},
    .read_config = hf_read_moe,
};

/* --- ops -------------------------------------------------------------------------------------- */

static plan_tensor_id list_ops(struct plan_builder *b, const struct model_config *c)
{
    return dense_blocks_list(
        b, c,
        &(const struct dense_form){.head_norms = true,
                                   .norms_after_rope = true,
                                   .experts = {.gate = {.activation = GATE_SILU}}});
}

const struct model_family family_hunyuan = {
    .architecture = "hunyuan-dense",
    .gguf = &gguf_hunyuan,
    .hf = &hf_hunyuan,
    .list_ops = list_ops,
};

const struct model_family family_hunyuan_moe = {
    .architecture = "hunyuan-moe",
    .gguf = &gguf_hunyuan_moe,
    .hf = &hf_hunyuan_moe,
    .list_ops = list_ops,
};
