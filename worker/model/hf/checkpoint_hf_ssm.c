/*
 * The columns of all heads are heads * head_dim in every class; expand and the stated columns only
 * give the size of a head that is "auto". Where a class states all of them they must agree, as the
 * classes themselves demand.
 *
 * Source: transformers, configuration_mamba2.py, configuration_bamba.py, configuration_falcon_h1.py,
 * configuration_granitemoehybrid.py, configuration_nemotron_h.py.
 */
#include "worker/model/hf/checkpoint_hf_ssm.h"

#include <math.h>
#include <string.h>

#include "worker/model/checkpoint/checkpoint_shared.h"

#define EXPAND_MAX 64u

/* As Python writes it, or as transformers does: {"__float__": "Infinity"}. */
static bool is_infinity(struct json_value value)
{
    static const char word[] = "Infinity";
    char text[sizeof word];
    struct json_value wrapped = json_value_member(value, "__float__");
    if (json_value_string(wrapped, text, sizeof text) == RESULT_OK)
        return strcmp(text, word) == 0;
    return value.byte_count == sizeof word - 1 && memcmp(value.bytes, word, sizeof word - 1) == 0;
}

static void read_limits(struct checkpoint_keys *keys, struct ssm_config *ssm)
{
    struct json_value limits = json_value_member(keys->object, "time_step_limit"), element;
    float bounds[2] = {0.0f, INFINITY};
    uint32_t count = 0;
    ssm->least_step = bounds[0];
    ssm->most_step = bounds[1];
    if (json_value_type(limits) == JSON_ABSENT)
        return;
    for (struct json_reader at = json_value_elements(limits); json_value_next(&at, &element);) {
        if (count < 2 && !is_infinity(element) &&
            json_value_f32(element, &bounds[count]) != RESULT_OK)
            bounds[0] = -1.0f;
        count++;
    }
    if (count != 2 || !(bounds[0] >= 0.0f && bounds[0] <= bounds[1]))
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "time_step_limit is not two numbers in order, from 0 on");
    ssm->least_step = bounds[0];
    ssm->most_step = bounds[1];
}

static uint32_t count_or(struct checkpoint_keys *keys, const char *name, uint32_t most,
                         uint32_t absent)
{
    return name ? checkpoint_keys_u32_or(keys, name, (struct u32_range){1, most}, absent) : absent;
}

static bool bool_or(struct checkpoint_keys *keys, const char *name, bool absent)
{
    return name ? checkpoint_keys_bool_or(keys, name, absent) : absent;
}

/* Of all heads as the config states them; 0: it does not. */
static uint64_t read_columns(struct checkpoint_keys *keys, const struct hf_ssm_terms *terms,
                             uint32_t hidden)
{
    uint32_t columns = count_or(keys, terms->columns, LIMIT_CONV_CHANNELS, terms->default_columns);
    if (terms->columns && json_value_member_is_null(keys->object, terms->columns))
        columns = 0;
    if (columns > 0 || !terms->expand)
        return columns;
    return (uint64_t)count_or(keys, terms->expand, EXPAND_MAX, 2) * hidden;
}

static void read_head_dim(struct checkpoint_keys *keys, const struct hf_ssm_terms *terms,
                          const struct model_config *config, struct ssm_config *ssm)
{
    struct json_value stated = json_value_member(keys->object, terms->head_dim);
    uint64_t columns = read_columns(keys, terms, config->hidden);
    bool automatic = terms->default_head_dim == 0;
    if (json_value_type(stated) == JSON_STRING)
        automatic =
            checkpoint_keys_is(checkpoint_keys_string_or_empty(keys, terms->head_dim), "auto");
    else if (json_value_type(stated) != JSON_ABSENT)
        automatic = false;
    if (automatic && columns % ssm->heads == 0 && columns / ssm->heads <= LIMIT_HEAD_DIM)
        ssm->head_dim = (uint32_t)(columns / ssm->heads);
    else
        ssm->head_dim = count_or(keys, terms->head_dim, LIMIT_HEAD_DIM, terms->default_head_dim);
    if (keys->result == RESULT_OK && columns > 0 && (uint64_t)ssm->heads * ssm->head_dim != columns)
        checkpoint_keys_refuse(keys, RESULT_INVALID, "%u heads of %u do not make %llu columns",
                               ssm->heads, ssm->head_dim, (unsigned long long)columns);
}

void checkpoint_hf_read_ssm(struct checkpoint_keys *keys, const struct hf_ssm_terms *terms,
                            struct model_config *config)
{
    struct ssm_config *ssm = &config->ssm;
    *ssm = (struct ssm_config){
        .heads = count_or(keys, terms->heads, LIMIT_HEADS, terms->default_heads),
        .groups = count_or(keys, terms->groups, LIMIT_HEADS, terms->default_groups),
        .state = count_or(keys, terms->state, LIMIT_HEAD_DIM, terms->default_state),
        .norm = SSM_NORM_AFTER_GATE,
        .norm_epsilon = config->norm_epsilon,
        .rate_is_log = true,
        .conv_bias = bool_or(keys, terms->conv_bias, true),
        .in_bias = bool_or(keys, terms->in_bias, false),
        .out_bias = bool_or(keys, terms->out_bias, false),
        .factors = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f},
        .in_factor = 1.0f,
        .out_factor = 1.0f,
    };
    read_head_dim(keys, terms, config, ssm);
    read_limits(keys, ssm);
    config->conv_taps =
        checkpoint_keys_u32_or(keys, terms->taps, (struct u32_range){2, LIMIT_CONV_TAPS}, 4);
    checkpoint_settle_ssm(keys, config);
}

const struct tensor_name checkpoint_hf_bamba_names[] = {
    {"output_norm.weight", "^final_layernorm.weight"},
    {"blk.*.ffn_norm.weight", "^layers.*.pre_ff_layernorm.weight"},
    {"blk.*.ffn_gate.weight", "^layers.*.feed_forward.gate_proj.weight"},
    {"blk.*.ffn_up.weight", "^layers.*.feed_forward.up_proj.weight"},
    {"blk.*.ffn_down.weight", "^layers.*.feed_forward.down_proj.weight"},
    {"blk.*.ffn_gate.bias", "^layers.*.feed_forward.gate_proj.bias"},
    {"blk.*.ffn_up.bias", "^layers.*.feed_forward.up_proj.bias"},
    {"blk.*.ffn_down.bias", "^layers.*.feed_forward.down_proj.bias"},
    HF_SSM_NAMES("mamba."),
    {NULL, NULL},
};

const struct hf_ssm_terms checkpoint_hf_bamba_ssm = {
    .heads = "mamba_n_heads",
    .head_dim = "mamba_d_head",
    .expand = "mamba_expand",
    .groups = "mamba_n_groups",
    .state = "mamba_d_state",
    .taps = "mamba_d_conv",
    .conv_bias = "mamba_conv_bias",
    .in_bias = "mamba_proj_bias",
    .out_bias = "mamba_proj_bias",
    .default_heads = 128,
    .default_groups = 1,
    .default_state = 256,
};
