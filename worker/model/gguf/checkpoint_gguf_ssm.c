/*
 * time_step_rank is the number of heads, and inner_size the columns of all of them.
 *
 * Source: llama.cpp, conversion/mamba.py and src/models/mamba-base.cpp.
 */
#include "worker/model/gguf/checkpoint_gguf_ssm.h"

#include <math.h>
#include <stdio.h>

#include "worker/model/checkpoint/checkpoint_shared.h"

static bool has_tensor(const struct checkpoint_keys *keys, uint32_t layer, const char *rest)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s", layer, rest);
    return gguf_file_find_tensor(keys->file, name) != NULL;
}

void checkpoint_gguf_read_ssm(struct checkpoint_keys *keys, uint32_t first,
                              struct model_config *config)
{
    struct u32_range counts = {1, LIMIT_HEADS}, dim = {1, LIMIT_HEAD_DIM};
    struct ssm_config *ssm = &config->ssm;
    *ssm = (struct ssm_config){
        .heads = checkpoint_keys_u32(keys, "ssm.time_step_rank", counts),
        .groups = checkpoint_keys_u32_or(keys, "ssm.group_count", counts, 1),
        .state = checkpoint_keys_u32(keys, "ssm.state_size", dim),
        .norm = has_tensor(keys, first, "ssm_norm.weight") ? SSM_NORM_AFTER_GATE : SSM_NO_NORM,
        .norm_epsilon = config->norm_epsilon,
        .most_step = INFINITY,
        .conv_bias = has_tensor(keys, first, "ssm_conv1d.bias"),
        .in_bias = has_tensor(keys, first, "ssm_in.bias"),
        .out_bias = has_tensor(keys, first, "ssm_out.bias"),
        .factors = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f},
        .in_factor = 1.0f,
        .out_factor = 1.0f,
    };
    uint32_t columns =
        checkpoint_keys_u32(keys, "ssm.inner_size", (struct u32_range){1, LIMIT_CONV_CHANNELS});
    ssm->head_dim = columns / ssm->heads;
    if (keys->result == RESULT_OK && (columns % ssm->heads != 0 || ssm->head_dim > LIMIT_HEAD_DIM))
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "ssm.inner_size %u is not ssm.time_step_rank %u heads of at most %u",
                               columns, ssm->heads, LIMIT_HEAD_DIM);
    config->conv_taps =
        checkpoint_keys_u32(keys, "ssm.conv_kernel", (struct u32_range){2, LIMIT_CONV_TAPS});
    checkpoint_settle_ssm(keys, config);
}
