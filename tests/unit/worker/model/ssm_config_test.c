/*
 * config.json of families with state space mixers: which layers mix how, the classes' defaults, sizes
 * that are "auto", bounds of steps in each spelling, factors; and refusals by the key's name.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/hf_config_case.h"
#include "worker/plan/state_layout.h"

#define SIZES "\"hidden_size\":64,\"vocab_size\":100,\"num_attention_heads\":4"
#define MAMBA2                                                                                     \
    "\"model_type\":\"mamba2\",\"num_hidden_layers\":3,\"hidden_size\":64,\"num_heads\":8,\"head_" \
    "dim\":16"
#define BAMBA   "\"model_type\":\"bamba\",\"num_hidden_layers\":4,\"num_key_value_heads\":2," SIZES
#define GRANITE "\"model_type\":\"granitemoehybrid\",\"num_hidden_layers\":4," SIZES
#define FALCON_H1                                                                                  \
    "\"model_type\":\"falcon_h1\",\"num_hidden_layers\":2,\"num_key_value_heads\":2," SIZES
#define NEMOTRON "\"model_type\":\"nemotron_h\",\"num_key_value_heads\":2," SIZES

static struct model_config config;

/* `kinds`: a letter for each layer: a attends, s scans, b both, f neither, e experts. */
static void must_read(const char *base, const char *more, const char *kinds)
{
    hf_config_case_must_read(base, more, &config);
    assert_int_equal(config.layers, strlen(kinds));
    for (uint32_t layer = 0; layer < config.layers; layer++) {
        const struct layer_config *own = &config.layer[layer];
        char kind = own->kind == LAYER_SSM_ATTENTION ? 'b' : own->kind == LAYER_SSM ? 's' : 'a';
        if (own->kind == LAYER_FEED_FORWARD)
            kind = own->experts ? 'e' : 'f';
        if (kind != kinds[layer])
            fail_msg("%s: layer %u is %c, not %c", more, layer, kind, kinds[layer]);
    }
}

static void test_mamba2(void **state)
{
    (void)state;
    struct state_layout layout;
    struct error_text error;
    must_read(MAMBA2, "", "sss");
    assert_int_equal(config.ssm.heads, 8);
    assert_int_equal(config.ssm.groups, 8);
    assert_int_equal(config.ssm.state, 128);
    assert_int_equal(config.conv_taps, 4);
    assert_int_equal(config.conv_channels, 128 + 2 * 8 * 128);
    assert_int_equal(config.context_tokens, 1048576);
    assert_true(config.ssm.rate_is_log && config.ssm.conv_bias && !config.ssm.in_bias);
    assert_int_equal(state_layout_init(&layout, &config, &error), RESULT_OK);
    assert_int_equal(layout.layers, 3);
    assert_int_equal(layout.conv_floats, 3 * config.conv_channels);
    assert_int_equal(layout.delta_floats, 8 * 16 * 128);
    assert_int_equal(layout.delta_row_floats, config.conv_channels + 8);
    must_read("\"model_type\":\"mamba2\",\"num_hidden_layers\":1", "", "s"); /* Codestral's sizes */
    assert_int_equal(config.ssm.heads * config.ssm.head_dim, 8192);
}

static void test_bounds_of_steps(void **state)
{
    (void)state;
    static const char *const unbounded[] = {
        "", "\"time_step_limit\":[0.0,Infinity]",
        "\"time_step_limit\":[0.0,{\"__float__\":\"Infinity\"}]", "\"time_step_limit\":null"};
    for (size_t i = 0; i < sizeof unbounded / sizeof unbounded[0]; i++) {
        must_read(MAMBA2, unbounded[i], "sss");
        assert_true(config.ssm.least_step <= 0.0f && isinf(config.ssm.most_step));
    }
    must_read(MAMBA2, "\"time_step_limit\":[0.25,0.5]", "sss");
    assert_true(config.ssm.least_step == 0.25f && config.ssm.most_step == 0.5f);
    static const char *const wrong[] = {
        "\"time_step_limit\":[0.5]",   "\"time_step_limit\":[0.5,0.25]",
        "\"time_step_limit\":[-1,1]",  "\"time_step_limit\":[0,1,2]",
        "\"time_step_limit\":[0,NaN]", "\"time_step_limit\":[\"0\",1]",
        "\"time_step_limit\":3",       "\"time_step_limit\":[Infinity,-Infinity]"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        hf_config_case_must_refuse(MAMBA2, wrong[i], "time_step_limit");
}

static void test_mamba2_refusals(void **state)
{
    (void)state;
    hf_config_case_must_refuse(MAMBA2, "\"n_groups\":3", "groups evenly");
    hf_config_case_must_refuse(MAMBA2, "\"expand\":3", "columns");
    hf_config_case_must_refuse(MAMBA2, "\"head_dim\":513", "head_dim");
    hf_config_case_must_refuse(MAMBA2, "\"state_size\":0", "state_size");
    hf_config_case_must_refuse(MAMBA2, "\"state_size\":4096", "state_size");
    hf_config_case_must_refuse(MAMBA2, "\"conv_kernel\":1", "conv_kernel");
    hf_config_case_must_refuse(MAMBA2, "\"use_bias\":1", "use_bias");
    hf_config_case_must_refuse(MAMBA2, "\"hidden_act\":\"gelu\"", "hidden_act");
    hf_config_case_must_refuse(
        "\"model_type\":\"mamba2\",\"num_heads\":1024,\"head_dim\":512,\"hidden_size\":65536,"
        "\"expand\":8",
        "\"n_groups\":1", "more than");
}

static void test_bamba(void **state)
{
    (void)state;
    must_read(BAMBA, "\"mamba_n_heads\":8,\"attn_layer_indices\":[1,3]", "sasa");
    assert_int_equal(config.ssm.head_dim, 16);
    assert_int_equal(config.ropes[0].dims, 8);
    assert_int_equal(config.context_tokens, 262144);
    must_read(BAMBA, "\"mamba_n_heads\":4,\"mamba_d_head\":\"auto\",\"attn_layer_indices\":null",
              "ssss");
    assert_int_equal(config.ssm.head_dim, 32);
    hf_config_case_must_refuse(BAMBA, "\"mamba_n_heads\":8,\"mamba_d_head\":17", "columns");
    hf_config_case_must_refuse(BAMBA, "\"mamba_n_heads\":8,\"mamba_d_head\":\"large\"",
                               "mamba_d_head");
    hf_config_case_must_refuse(BAMBA, "\"mamba_n_heads\":7", "do not make");
    hf_config_case_must_refuse(BAMBA, "\"attn_layer_indices\":[4]", "attn_layer_indices");
}

static void test_granite(void **state)
{
    (void)state;
    must_read(GRANITE,
              "\"mamba_n_heads\":8,\"layer_types\":[\"mamba\",\"attention\",\"linear_attention\","
              "\"full_attention\"]",
              "sasa");
    assert_int_equal(config.layer[1].rope, ROPE_NONE);
    assert_int_equal(config.experts.count, 8);
    assert_int_equal(config.experts.shared, 1024);
    assert_true(config.layer[0].experts && !config.experts.weighed);
    must_read(
        GRANITE,
        "\"mamba_n_heads\":8,\"num_local_experts\":0,\"shared_intermediate_size\":40,\"num_experts_"
        "per_tok\":0,"
        "\"position_embedding_type\":\"rope\",\"residual_multiplier\":0.5,\"rms_norm_eps\":1e-4",
        "ssss");
    assert_int_equal(config.feed_forward, 40);
    assert_int_equal(config.layer[0].rope, 0);
    assert_false(config.layer[0].experts);
    assert_true(fabsf(config.norm_epsilon - 4e-4f) < 1e-9f); /* of the mixer it is the stated one */
    assert_true(fabsf(config.ssm.norm_epsilon - 1e-4f) < 1e-9f);
    hf_config_case_must_refuse(GRANITE, "\"mamba_n_heads\":8,\"position_embedding_type\":\"alibi\"",
                               "position_embedding_type");
    hf_config_case_must_refuse(GRANITE, "\"mamba_n_heads\":8,\"num_experts_per_tok\":0",
                               "num_experts_per_tok");
}

static void test_falcon_h1(void **state)
{
    (void)state;
    must_read(FALCON_H1,
              "\"mamba_n_heads\":8,\"mamba_d_ssm\":96,\"ssm_multipliers\":[1,2,3,4,5],"
              "\"mlp_multipliers\":[0.5,0.25],\"attention_in_multiplier\":2,\"key_multiplier\":0.5,"
              "\"attention_out_multiplier\":3,\"lm_head_multiplier\":7",
              "bb");
    assert_int_equal(config.ssm.head_dim, 12);
    assert_true(config.ssm.factors[4] == 5.0f && config.gate_factor == 0.5f);
    assert_true(config.fed_factor == 0.25f && config.attended_factor == 6.0f);
    assert_true(config.attention_scale == 0.5f && config.logit_scale == 7.0f); /* 2 / sqrt(16) */
    assert_int_equal(config.ssm.norm, SSM_NO_NORM);
    must_read(FALCON_H1, "\"mamba_n_heads\":8,\"mamba_d_ssm\":null,\"mamba_rms_norm\":true", "bb");
    assert_int_equal(config.ssm.head_dim, 16);
    assert_int_equal(config.ssm.norm, SSM_NORM_BEFORE_GATE);
    hf_config_case_must_refuse(FALCON_H1, "\"ssm_multipliers\":[1,2,3,4]", "ssm_multipliers");
    hf_config_case_must_refuse(FALCON_H1, "\"ssm_multipliers\":[1,2,3,4,0]", "ssm_multipliers");
    hf_config_case_must_refuse(FALCON_H1, "\"mlp_multipliers\":[1,2,3]", "mlp_multipliers");
    hf_config_case_must_refuse(FALCON_H1, "\"key_multiplier\":0", "key_multiplier");
    hf_config_case_must_refuse(FALCON_H1, "\"attention_bias\":true", "attention_bias");
}

static void test_nemotron_h(void **state)
{
    (void)state;
    must_read(NEMOTRON, "\"num_hidden_layers\":9,\"hybrid_override_pattern\":\"M-*E\"", "sfae");
    assert_int_equal(config.experts.count, 8);
    assert_int_equal(config.experts.shared, 7688);
    assert_true(config.experts.sigmoid && config.experts.choice_bias);
    assert_int_equal(config.rope_count, 0);
    must_read(NEMOTRON,
              "\"layers_block_type\":[\"mamba\",\"full_attention\",\"mlp\"],\"hybrid_override_"
              "pattern\":\"M\"",
              "saf");
    assert_int_equal(config.experts.count, 0);
    must_read(
        NEMOTRON,
        "\"hybrid_override_pattern\":\"EM\",\"moe_latent_size\":24,\"n_group\":4,\"topk_group\":2",
        "es");
    assert_int_equal(config.experts.latent, 24);
    assert_int_equal(config.experts.groups, 4);
    hf_config_case_must_refuse(NEMOTRON, "", "layers_block_type");
    hf_config_case_must_refuse(NEMOTRON, "\"hybrid_override_pattern\":\"MX\"", "layer 1");
    hf_config_case_must_refuse(NEMOTRON, "\"layers_block_type\":[7]", "layer 0");
    hf_config_case_must_refuse(NEMOTRON, "\"hybrid_override_pattern\":\"ME\",\"mlp_bias\":true",
                               "mlp_bias");
    hf_config_case_must_refuse(NEMOTRON, "\"hybrid_override_pattern\":\"M\",\"sliding_window\":8",
                               "sliding_window");
    hf_config_case_must_refuse(NEMOTRON,
                               "\"hybrid_override_pattern\":\"M\",\"mlp_hidden_act\":\"silu\"",
                               "mlp_hidden_act");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mamba2),          cmocka_unit_test(test_bounds_of_steps),
        cmocka_unit_test(test_mamba2_refusals), cmocka_unit_test(test_bamba),
        cmocka_unit_test(test_granite),         cmocka_unit_test(test_falcon_h1),
        cmocka_unit_test(test_nemotron_h),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
