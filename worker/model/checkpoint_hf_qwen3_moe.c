/*
 * Hugging Face checkpoints of Qwen3's mixtures of experts: qwen3 but for the layers that have
 * experts, which are those not in mlp_only_layers whose number, from 1, decoder_sparse_step
 * divides.
 *
 * Experts are stored one by one (published checkpoints), as stacks with gate and up in one (what
 * transformers 5 keeps in memory), or as stacks of each (MLX).
 *
 * Source: transformers, configuration_qwen3_moe.py and modeling_qwen3_moe.py.
 */
#include "worker/model/checkpoint_hf.h"
#include "worker/model/checkpoint_hf_layers.h"
#include "worker/model/checkpoint_hf_rope.h"
#include "worker/model/checkpoint_shared.h"

#define ROPE_BASE       10000.0f
#define DEFAULT_WINDOW  4096u
#define DEFAULT_EXPERTS 128u
#define DEFAULT_CHOSEN  8u
#define DEFAULT_WIDE    768u

static const char *const model_types[] = {"qwen3_moe", NULL};
static const char *const own_keys[] = {"num_experts", "num_local_experts", NULL};
static const char *const prefixes[] = {"model.", NULL};
static const char *const other_parts[] = {NULL};

/* Newer versions write num_experts under the other name. */
static void read_experts(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range counts = {0, LIMIT_EXPERTS};
    uint32_t local = checkpoint_keys_u32_or(keys, "num_local_experts", counts, DEFAULT_EXPERTS);
    config->experts = (struct expert_config){
        .count = checkpoint_keys_u32_or(keys, "num_experts", counts, local),
        .chosen =
            checkpoint_keys_u32_or(keys, "num_experts_per_tok",
                                   (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}, DEFAULT_CHOSEN),
        .feed_forward = checkpoint_keys_u32_or(
            keys, "moe_intermediate_size", (struct u32_range){1, LIMIT_FEED_FORWARD}, DEFAULT_WIDE),
        .normalized = checkpoint_keys_bool_or(keys, "norm_topk_prob", false),
    };
    checkpoint_settle_experts(keys, config);
}

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    struct json_value dense = json_value_member(keys->object, "mlp_only_layers"), element;
    uint32_t window = 0, layer = 0;
    uint32_t step =
        checkpoint_keys_u32_or(keys, "decoder_sparse_step", (struct u32_range){1, UINT32_MAX}, 1);
    if (checkpoint_keys_bool_or(keys, "use_sliding_window", false))
        window = checkpoint_hf_window(keys, config, DEFAULT_WINDOW);
    for (uint32_t l = 0; l < config->layers; l++)
        config->layer[l] = (struct layer_config){
            .window = window,
            .experts = config->experts.count > 0 && (l + 1) % step == 0,
        };
    enum json_type type = json_value_type(dense);
    if (type != JSON_ARRAY && type != JSON_ABSENT)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key mlp_only_layers is not an array");
    if (type != JSON_ARRAY)
        return;
    for (struct json_reader at = json_value_elements(dense); json_value_next(&at, &element);) {
        if (json_value_u32(element, &layer) != RESULT_OK || layer >= config->layers)
            checkpoint_keys_refuse(keys, RESULT_INVALID,
                                   "mlp_only_layers: an element is no layer's number");
        else
            config->layer[layer].experts = false;
    }
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_read_only_rope(keys, config, &(const struct hf_rope_terms){.base = ROPE_BASE});
    read_experts(keys, config);
    read_layers(keys, config);
}

const struct hf_form checkpoint_hf_qwen3_moe = {
    .model_types = model_types,
    .defaults = {.layers = 24,
                 .hidden = 2048,
                 .feed_forward = 6144,
                 .heads = 32,
                 .kv_heads = 4,
                 .vocab_tokens = 151936,
                 .norm_epsilon = 1e-6f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .own_keys = own_keys,
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, other_parts},
    .read_config = read_config,
};
