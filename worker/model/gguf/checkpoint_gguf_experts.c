/*
 * llama.cpp's keys for all families of this kind.
 *
 * Source: llama.cpp, gguf-py/gguf/constants.py, src/llama-hparams.h and build_moe_ffn() of
 * src/llama-graph.cpp. The score of a group is the sum of its two best experts', or for softmax, as its
 * publisher computes it, its best one's.
 */
#include "worker/model/gguf/checkpoint_gguf_experts.h"

#include <stdio.h>

#include "worker/model/checkpoint/checkpoint_shared.h"

enum gating_function { GATING_SOFTMAX = 1, GATING_SIGMOID = 2 };

static const struct f32_range factor_range = {1e-4f, 1e4f};

static void read_weights(struct checkpoint_keys *keys, const struct gguf_expert_terms *terms,
                         uint32_t first, struct expert_config *experts)
{
    char bias[64];
    uint32_t absent = terms->sigmoid ? GATING_SIGMOID : GATING_SOFTMAX;
    uint32_t function = checkpoint_keys_u32_or(keys, "expert_gating_func",
                                               (struct u32_range){0, UINT32_MAX}, absent);
    function = function == 0 ? absent : function;
    if (function != GATING_SOFTMAX && function != GATING_SIGMOID)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "expert_gating_func %u is not supported",
                               function);
    experts->weighed = true;
    experts->sigmoid = function == GATING_SIGMOID;
    experts->normalized = checkpoint_keys_bool_or(keys, "expert_weights_norm", terms->normalized);
    experts->scale =
        checkpoint_keys_f32_or(keys, "expert_weights_scale", (struct f32_range){0.0f, 1e4f}, 1.0f);
    if (!(experts->scale >= factor_range.least)) /* 0: the converter knew of none */
        experts->scale = 1.0f;
    experts->epsilon = terms->epsilon;
    snprintf(bias, sizeof bias, "blk.%u.exp_probs_b.bias", first);
    experts->choice_bias = gguf_file_find_tensor(keys->file, bias) != NULL;
}

static void read_groups(struct checkpoint_keys *keys, struct expert_config *experts)
{
    struct u32_range range = {0, LIMIT_EXPERTS};
    experts->groups = checkpoint_keys_u32_or(keys, "expert_group_count", range, 0);
    experts->groups_chosen = checkpoint_keys_u32_or(keys, "expert_group_used_count", range, 0);
    experts->group_best = experts->sigmoid ? 2 : 1;
    checkpoint_settle_groups(keys, experts);
}

void checkpoint_gguf_read_experts(struct checkpoint_keys *keys,
                                  const struct gguf_expert_terms *terms,
                                  struct model_config *config)
{
    struct u32_range wide = {1, LIMIT_FEED_FORWARD};
    uint32_t dense = checkpoint_keys_u32_or(keys, "leading_dense_block_count",
                                            (struct u32_range){0, config->layers}, 0);
    struct expert_config experts = {
        .count = checkpoint_keys_u32(keys, "expert_count", (struct u32_range){1, LIMIT_EXPERTS}),
        .chosen = checkpoint_keys_u32(keys, "expert_used_count",
                                      (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}),
        .feed_forward =
            checkpoint_keys_u32_or(keys, "expert_feed_forward_length", wide, config->feed_forward),
    };
    uint32_t shared = checkpoint_keys_u32_or(keys, "expert_shared_count",
                                             (struct u32_range){0, LIMIT_EXPERTS}, 0);
    uint64_t together = (uint64_t)shared * experts.feed_forward;
    if (together > LIMIT_FEED_FORWARD)
        checkpoint_keys_refuse(keys, RESULT_TOO_LARGE, "expert_shared_count %u is too large",
                               shared);
    experts.shared =
        checkpoint_keys_u32_or(keys, "expert_shared_feed_forward_length",
                               (struct u32_range){0, LIMIT_FEED_FORWARD}, (uint32_t)together);
    read_weights(keys, terms, dense, &experts);
    read_groups(keys, &experts);
    config->experts = experts;
    checkpoint_settle_experts(keys, config);
    for (uint32_t layer = dense; layer < config->layers; layer++)
        config->layer[layer].experts = true;
}
