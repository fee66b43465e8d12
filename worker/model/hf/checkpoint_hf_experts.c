/*
 * Every number is checked against its limit before a size depends on it, and every layer listed as
 * having no experts must exist.
 *
 * Source: transformers, configuration_qwen3_moe.py and its siblings.
 */
#include "worker/model/hf/checkpoint_hf_experts.h"

#include <stdio.h>

#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/plan/tensor_naming.h"

/* Newer versions of transformers write num_experts under the other name. */
void checkpoint_hf_read_experts(struct checkpoint_keys *keys, const struct hf_expert_terms *terms,
                                struct model_config *config)
{
    struct u32_range counts = {terms->least, LIMIT_EXPERTS};
    struct u32_range chosen = {1, LIMIT_EXPERTS_CHOSEN}, wide = {1, LIMIT_FEED_FORWARD};
    uint32_t local = checkpoint_keys_u32_or(keys, "num_local_experts", counts, terms->count);
    config->experts = (struct expert_config){
        .count = checkpoint_keys_u32_or(keys, "num_experts", counts, local),
        .chosen = checkpoint_keys_u32_or(keys, "num_experts_per_tok", chosen, terms->chosen),
        .feed_forward =
            checkpoint_keys_u32_or(keys, "moe_intermediate_size", wide, terms->feed_forward),
        .normalized = terms->normalized,
    };
    checkpoint_settle_experts(keys, config);
}

void checkpoint_hf_read_expert_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    struct json_value dense = json_value_member(keys->object, "mlp_only_layers"), element;
    uint32_t layer = 0;
    uint32_t step =
        checkpoint_keys_u32_or(keys, "decoder_sparse_step", (struct u32_range){1, UINT32_MAX}, 1);
    for (uint32_t l = 0; l < config->layers; l++)
        config->layer[l].experts = config->experts.count > 0 && (l + 1) % step == 0;
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

/* --- DeepSeek's keys -------------------------------------------------------------------------- */

uint32_t checkpoint_hf_count_or_null(struct checkpoint_keys *keys, const char *name, uint32_t most,
                                     uint32_t absent)
{
    if (json_value_member_is_null(keys->object, name))
        return 0;
    return checkpoint_keys_u32_or(keys, name, (struct u32_range){0, most}, absent);
}

void checkpoint_hf_use_experts(struct model_config *config, uint32_t first)
{
    for (uint32_t layer = first; layer < config->layers; layer++)
        config->layer[layer].experts = true;
}

struct expert_config checkpoint_hf_sigmoid_experts(struct checkpoint_keys *keys, uint32_t groups,
                                                   uint32_t groups_chosen)
{
    return (struct expert_config){
        .weighed = true,
        .sigmoid = true,
        .choice_bias = true,
        .normalized = checkpoint_keys_bool_or(keys, "norm_topk_prob", true),
        .epsilon = 1e-20f,
        .groups = checkpoint_hf_count_or_null(keys, "n_group", LIMIT_EXPERTS, groups),
        .groups_chosen =
            checkpoint_hf_count_or_null(keys, "topk_group", LIMIT_EXPERTS, groups_chosen),
        .group_best = 2,
    };
}

void checkpoint_hf_read_routed(struct checkpoint_keys *keys, const struct hf_routed_terms *terms,
                               struct model_config *config)
{
    struct u32_range wide = {1, LIMIT_FEED_FORWARD}, counts = {1, LIMIT_EXPERTS};
    struct u32_range chosen = {1, LIMIT_EXPERTS_CHOSEN};
    struct expert_config *e = &config->experts;
    e->count = checkpoint_keys_u32_or(keys, "n_routed_experts", counts, terms->count);
    e->chosen = checkpoint_keys_u32_or(keys, "num_experts_per_tok", chosen, terms->chosen);
    e->feed_forward =
        checkpoint_keys_u32_or(keys, "moe_intermediate_size", wide, terms->feed_forward);
    e->scale = checkpoint_keys_f32_or(keys, "routed_scaling_factor",
                                      (struct f32_range){1e-4f, 1e4f}, terms->scale);
    uint64_t shared =
        (uint64_t)e->feed_forward *
        checkpoint_hf_count_or_null(keys, "n_shared_experts", LIMIT_EXPERTS, terms->shared);
    if (shared > LIMIT_FEED_FORWARD)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "shared experts of %llu columns",
                               (unsigned long long)shared);
    e->shared = (uint32_t)shared;
    checkpoint_settle_groups(keys, e);
    checkpoint_settle_experts(keys, config);
    checkpoint_keys_expect_neutral(keys, "moe_layer_freq", 1);
    checkpoint_hf_use_experts(config, checkpoint_hf_count_or_null(keys, "first_k_dense_replace",
                                                                  LIMIT_LAYERS, terms->dense));
}

/* Sums of weights below moe_norm_min do not occur: it is added to the sum. */
void checkpoint_hf_read_ernie_experts(struct checkpoint_keys *keys, uint32_t count,
                                      uint32_t feed_forward, struct model_config *config)
{
    const struct f32_range epsilons = {0.0f, 1e-3f};
    config->experts = (struct expert_config){
        .count = count,
        .chosen =
            checkpoint_keys_u32_or(keys, "moe_k", (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}, 6),
        .feed_forward = feed_forward,
        .weighed = true,
        .choice_bias = true,
        .normalized = true,
        .epsilon = checkpoint_keys_f32_or(keys, "moe_norm_min", epsilons, ERNIE_WEIGHT_EPSILON),
    };
    uint64_t shared = (uint64_t)feed_forward *
                      checkpoint_hf_count_or_null(keys, "moe_num_shared_experts", LIMIT_EXPERTS, 2);
    if (shared > LIMIT_FEED_FORWARD)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "shared experts of %llu columns",
                               (unsigned long long)shared);
    config->experts.shared = (uint32_t)shared;
    checkpoint_settle_experts(keys, config);
}

static bool has_fastest(const struct tensor_table *tensors, const char *prefix, uint32_t layer,
                        const char *stack, uint32_t size)
{
    struct stored_name name;
    snprintf(name.text, sizeof name.text, "%slayers.%u.mlp.experts.%s", prefix, layer, stack);
    const struct checkpoint_tensor *tensor = tensor_table_find(tensors, name.text);
    return tensor && tensor->dimensions[0] == size;
}

void checkpoint_hf_look_at_stacks(const struct tensor_table *tensors, const char *prefix,
                                  struct model_config *config)
{
    uint32_t layer = 0, wide = config->experts.feed_forward;
    while (layer + 1 < config->layers && !config->layer[layer].experts)
        layer++;
    config->experts.turned =
        has_fastest(tensors, prefix, layer, "gate_up_proj", 2 * wide) &&
        (config->hidden != 2 * wide || !has_fastest(tensors, prefix, layer, "down_proj", wide));
}
