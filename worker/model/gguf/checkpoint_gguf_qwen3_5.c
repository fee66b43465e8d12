/*
 * What a GGUF of the architectures qwen35 and qwen35moe states beyond the shared sizes: the rotary
 * embedding over a part of each head, which layers attend, and the sizes of the delta nets under
 * the names of a state space model.
 *
 * Converters store the rate itself, -exp(A_log), and order value heads so that neighbours have
 * different key heads; both are facts of the config (struct delta_config). Rotary embeddings of
 * three dimensions (rope.dimension_sections) are one of one dimension where there is text alone.
 *
 * With experts every layer has them, and one more that every row uses; no width is stated for a
 * layer without.
 *
 * Source: llama.cpp, conversion/qwen.py, src/models/qwen35.cpp and qwen35moe.cpp.
 *
 * Layers that predict several tokens (nextn_predict_layers) are counted among the blocks and stand
 * last; they are left alone.
 */
#include <stdio.h>

#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"

#define QWEN3_5_ROPE_BASE   10000000.0f
#define QWEN3_5_FULL_PERIOD 4u

static const char *const own_keys[] = {"nextn_predict_layers", NULL};
static const char *const moe_own_keys[] = {"nextn_predict_layers", "expert_count",
                                           "feed_forward_length", NULL};

static void read_delta(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range heads = {1, LIMIT_HEADS}, dim = {1, LIMIT_HEAD_DIM};
    struct delta_config *delta = &config->delta;
    delta->key_heads = checkpoint_keys_u32(keys, "ssm.group_count", heads);
    delta->value_heads = checkpoint_keys_u32(keys, "ssm.time_step_rank", heads);
    delta->key_dim = checkpoint_keys_u32(keys, "ssm.state_size", dim);
    uint32_t values = checkpoint_keys_u32(keys, "ssm.inner_size",
                                          (struct u32_range){1, LIMIT_HEADS * LIMIT_HEAD_DIM});
    delta->value_dim = values / delta->value_heads;
    if (keys->result == RESULT_OK &&
        (values % delta->value_heads != 0 || delta->value_dim > LIMIT_HEAD_DIM))
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "ssm.inner_size %u is not ssm.time_step_rank %u heads of at most %u",
                               values, delta->value_heads, LIMIT_HEAD_DIM);
    delta->heads_take_turns = true;
    config->conv_taps =
        checkpoint_keys_u32(keys, "ssm.conv_kernel", (struct u32_range){2, LIMIT_CONV_TAPS});
    checkpoint_settle_delta(keys, config);
}

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    struct gguf_array listed;
    char name[64];
    snprintf(name, sizeof name, "%s.attention.recurrent_layers", keys->section);
    bool lists = gguf_file_array(keys->file, name, &listed) == RESULT_OK;
    uint32_t period = checkpoint_keys_u32_or(
        keys, "full_attention_interval", (struct u32_range){1, LIMIT_LAYERS}, QWEN3_5_FULL_PERIOD);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        bool recurrent = (layer + 1) % period != 0;
        if (lists)
            recurrent = checkpoint_keys_u32_at(keys, "attention.recurrent_layers", layer,
                                               (struct u32_range){0, 1}) != 0;
        config->layer[layer] =
            (struct layer_config){.kind = recurrent ? LAYER_GATED_DELTA : LAYER_ATTENTION};
    }
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, QWEN3_5_ROPE_BASE, &config->ropes[0]);
    read_delta(keys, config);
    config->ahead_layers = checkpoint_keys_u32_or(keys, "nextn_predict_layers",
                                                  (struct u32_range){0, config->layers - 1}, 0);
    config->layers -= config->ahead_layers;
    read_layers(keys, config);
}

static void read_moe_config(struct checkpoint_keys *keys, struct model_config *config)
{
    struct u32_range wide = {1, LIMIT_FEED_FORWARD};
    read_config(keys, config);
    config->feed_forward = checkpoint_keys_u32(keys, "expert_shared_feed_forward_length", wide);
    config->experts = (struct expert_config){
        .count = checkpoint_keys_u32(keys, "expert_count", (struct u32_range){1, LIMIT_EXPERTS}),
        .chosen = checkpoint_keys_u32(keys, "expert_used_count",
                                      (struct u32_range){1, LIMIT_EXPERTS_CHOSEN}),
        .feed_forward = checkpoint_keys_u32(keys, "expert_feed_forward_length", wide),
        .normalized = true,
    };
    checkpoint_settle_experts(keys, config);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer].experts = true;
}

const struct gguf_form checkpoint_gguf_qwen3_5 = {
    .own_keys = own_keys,
    .read_config = read_config,
};

const struct gguf_form checkpoint_gguf_qwen3_5_moe = {
    .own_keys = moe_own_keys,
    .read_config = read_moe_config,
};
