/*
 * The part of a config that follows from facts stated in either format.
 *
 * GGUF and config.json name the same facts differently and leave out different ones. The rules that
 * apply once the facts are read - what heads must divide, how frequencies follow from a base - are
 * here, once.
 */
#include "worker/model/checkpoint/checkpoint_shared.h"

#include <math.h>

#include "proto/must.h"

void checkpoint_set_name(struct model_config *config, const char *name, size_t name_bytes)
{
    size_t room = sizeof(config->name) - 1;
    size_t length = name_bytes < room ? name_bytes : room;
    for (size_t i = 0; i < length; i++) /* for logs, so ASCII only */
        config->name[i] = name[i] < 0x20 || name[i] == 0x7f ? '?' : name[i];
    config->name[length] = '\0';
}

void checkpoint_settle_heads(struct checkpoint_keys *keys, struct model_config *config)
{
    if (keys->result == RESULT_OK && config->heads % config->kv_heads != 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "%u attention heads do not share %u key-value heads evenly",
                               config->heads, config->kv_heads);
    if (keys->result == RESULT_OK && config->head_dim == 0 && config->hidden % config->heads != 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "hidden size %u is no multiple of %u heads",
                               config->hidden, config->heads);
    if (config->head_dim == 0)
        config->head_dim = config->hidden / config->heads;
    if (config->head_dim == 0 || config->head_dim > LIMIT_HEAD_DIM)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "head size %u is not within 1 to %u",
                               config->head_dim, LIMIT_HEAD_DIM);
}

void checkpoint_settle_experts(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct expert_config *experts = &config->experts;
    if (experts->count == 0)
        config->experts = (struct expert_config){0};
    else if (keys->result == RESULT_OK && experts->chosen > experts->count)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "%u experts of %u cannot be chosen",
                               experts->chosen, experts->count);
}

void checkpoint_settle_groups(struct checkpoint_keys *keys, struct expert_config *experts)
{
    if (experts->groups <= 1 || keys->result != RESULT_OK) {
        experts->groups = 0;
        return;
    }
    uint32_t each = experts->count / experts->groups;
    if (each < experts->group_best || experts->count % experts->groups != 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "%u experts are not %u equal groups of %u",
                               experts->count, experts->groups, experts->group_best);
    else if (experts->groups_chosen < 1 || experts->groups_chosen > experts->groups)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "%u groups of %u cannot be chosen",
                               experts->groups_chosen, experts->groups);
    else if ((uint64_t)each * experts->groups_chosen < experts->chosen)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "%u groups of %u experts have no %u to choose",
                               experts->groups_chosen, each, experts->chosen);
    else if (experts->groups_chosen == experts->groups)
        experts->groups = 0;
}

void checkpoint_plain_rope(struct rope_config *rope, float base, float divisor)
{
    must(rope->dims >= 2 && rope->dims % 2 == 0 && rope->dims <= ROPE_DIMS_MAX);
    rope->magnitude = 1.0f;
    for (uint32_t i = 0; i < rope->dims / 2; i++)
        rope->inverse_frequency[i] =
            (float)(pow((double)base, -2.0 * i / rope->dims) / (double)divisor);
}

uint32_t checkpoint_useful_window(const struct model_config *config, uint32_t window)
{
    return window >= config->context_tokens ? 0 : window;
}

void checkpoint_settle_delta(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct delta_config *delta = &config->delta;
    if (keys->result == RESULT_OK && delta->value_heads % delta->key_heads != 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "%u value heads do not share %u key heads evenly",
                               delta->value_heads, delta->key_heads);
    uint64_t channels =
        2ull * delta->key_heads * delta->key_dim + (uint64_t)delta->value_heads * delta->value_dim;
    if (keys->result == RESULT_OK && channels > LIMIT_CONV_CHANNELS)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "a delta net of %llu columns, more than %u",
                               (unsigned long long)channels, LIMIT_CONV_CHANNELS);
    config->conv_channels = (uint32_t)channels;
}

void checkpoint_settle_ssm(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct ssm_config *ssm = &config->ssm;
    if (keys->result == RESULT_OK && ssm->heads % ssm->groups != 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "%u heads of state do not share %u groups evenly", ssm->heads,
                               ssm->groups);
    uint64_t channels = (uint64_t)ssm->heads * ssm->head_dim + 2ull * ssm->groups * ssm->state;
    if (keys->result == RESULT_OK && channels > LIMIT_CONV_CHANNELS)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE,
                               "a state space mixer of %llu columns, more than %u",
                               (unsigned long long)channels, LIMIT_CONV_CHANNELS);
    config->conv_channels = (uint32_t)channels;
}

void checkpoint_share_caches(struct checkpoint_keys *keys, struct model_config *config,
                             uint32_t shared)
{
    if (keys->result == RESULT_OK && shared >= config->layers)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "%u of %u layers share keys, and none stores any", shared,
                               config->layers);
    for (uint32_t layer = config->layers - shared;
         layer < config->layers && keys->result == RESULT_OK; layer++) {
        uint32_t back = layer - (config->layers - shared) + 1;
        while (back <= layer && config->layer[layer - back].rope != config->layer[layer].rope)
            back++;
        if (back > layer)
            checkpoint_keys_refuse(keys, RESULT_INVALID,
                                   "layer %u: no layer of its kind stores keys for it", layer);
        else if (model_config_kv_heads(config, layer - back) !=
                 model_config_kv_heads(config, layer))
            checkpoint_keys_refuse(keys, RESULT_INVALID,
                                   "layer %u has not as many key-value heads as layer %u, whose "
                                   "keys it shares",
                                   layer, layer - back);
        else
            config->layer[layer].cache_back = back;
    }
}
