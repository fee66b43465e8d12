/*
 * Every number is checked against its limit before a size depends on it, and every layer listed as
 * having no experts must exist.
 *
 * Source: transformers, configuration_qwen3_moe.py and its siblings.
 */
#include "worker/model/hf/checkpoint_hf_experts.h"

#include "worker/model/checkpoint/checkpoint_shared.h"

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
