/*
 * The config.json of mixtures that are llama otherwise: defaults of the classes, which layers have experts,
 * how published files state what transformers' classes state otherwise, and what is refused.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/hf_config_case.h"

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":5,"                         \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":100,"                      \
    "\"max_position_embeddings\":512"
#define ERNIE       "\"model_type\":\"ernie4_5_moe\"," SIZES
#define GLM         "\"model_type\":\"glm4_moe\"," SIZES
#define LITE        "\"model_type\":\"glm4_moe_lite\"," SIZES
#define MINIMAX     "\"model_type\":\"minimax_m2\"," SIZES
#define HUNYUAN     "\"model_type\":\"hunyuan_v1_dense\"," SIZES
#define HUNYUAN_MOE "\"model_type\":\"hunyuan_v1_moe\",\"num_experts\":8,\"moe_topk\":2," SIZES
#define LFM2_MOE    "\"model_type\":\"lfm2_moe\"," SIZES

static struct model_config config;

/* Bit l: layer l has experts. */
static uint32_t layers(void)
{
    uint32_t found = 0;
    for (uint32_t layer = 0; layer < config.layers; layer++)
        found |= (uint32_t)config.layer[layer].experts << layer;
    return found;
}

static void test_ernie(void **state)
{
    (void)state;
    hf_config_case_must_read(ERNIE, "", &config);
    assert_int_equal(layers(), 0x1e);
    assert_int_equal(config.experts.shared, 2 * 1536);
    assert_true(config.experts.normalized && !config.experts.sigmoid);
    hf_config_case_must_read(ERNIE, "\"moe_layer_start_index\":0,\"moe_layer_end_index\":3",
                             &config);
    assert_int_equal(layers(), 0x0f);
    hf_config_case_must_read(ERNIE, "\"moe_layer_interval\":2,\"moe_layer_end_index\":-1", &config);
    assert_int_equal(layers(), 0x0a);
    hf_config_case_must_refuse(ERNIE, "\"moe_layer_interval\":0", "moe_layer_interval");
    hf_config_case_must_refuse(ERNIE, "\"moe_layer_end_index\":-2", "moe_layer_end_index");
    hf_config_case_must_refuse(ERNIE, "\"use_bias\":true", "use_bias");
    hf_config_case_must_refuse(ERNIE, "\"moe_k\":33", "moe_k");
    hf_config_case_must_refuse(ERNIE, "\"moe_k\":7,\"moe_num_experts\":6", "7 experts of 6");
    hf_config_case_must_refuse(ERNIE, "\"moe_num_shared_experts\":1000", "shared experts");
}

static void test_glm(void **state)
{
    (void)state;
    hf_config_case_must_read(GLM, "\"head_dim\":128", &config);
    assert_int_equal(layers(), 0x1e);
    assert_int_equal(config.ropes[0].dims, 64);
    assert_int_equal(config.ropes[0].pairing, ROPE_PAIRS_HALVES);
    assert_false(config.head_norms);
    assert_int_equal(config.ahead_layers, 1);
    hf_config_case_must_refuse(GLM, "\"n_group\":3", "equal groups");
    hf_config_case_must_refuse(GLM, "\"partial_rotary_factor\":0.01", "cannot rotate");
    hf_config_case_must_refuse(GLM, "\"n_routed_experts\":2000", "n_routed_experts");
    hf_config_case_must_refuse(GLM, "\"routed_scaling_factor\":0", "routed_scaling_factor");
    hf_config_case_must_read(LITE, "", &config);
    assert_int_equal(layers(), 0x1e);
    assert_int_equal(config.head_dim, 576);
    assert_float_equal(config.attention_scale, 1 / sqrtf(256), 1e-7);
    hf_config_case_must_refuse(LITE, "\"mlp_layer_types\":[\"dense\"]", "1 elements for 5 layers");
    hf_config_case_must_refuse(LITE, "\"mlp_layer_types\":[\"dense\",\"odd\"]", "element 1");
}

static void test_minimax(void **state)
{
    (void)state;
    hf_config_case_must_read(MINIMAX, "\"rotary_dim\":64", &config);
    assert_int_equal(config.ropes[0].dims, 64);
    assert_int_equal(layers(), 0x1f);
    assert_int_equal(config.experts.feed_forward, 96);
    hf_config_case_must_read(MINIMAX, "", &config);
    assert_int_equal(config.ropes[0].dims, 128);
    hf_config_case_must_refuse(MINIMAX, "\"rotary_dim\":129", "rotary_dim");
    hf_config_case_must_refuse(MINIMAX, "\"scoring_func\":\"softmax\"", "scoring_func \"softmax\"");
    hf_config_case_must_refuse(MINIMAX, "\"qk_norm_type\":\"per_head\"", "qk_norm_type");
    hf_config_case_must_refuse(MINIMAX, "\"use_qk_norm\":false", "use_qk_norm");
    hf_config_case_must_refuse(MINIMAX, "\"shared_intermediate_size\":64", "shared_intermediate");
}

static void test_hunyuan(void **state)
{
    (void)state;
    const char *alpha = "\"head_dim\":128,\"rope_theta\":10000.0,"
                        "\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":1000.0,\"factor\":1.0}";
    hf_config_case_must_read(HUNYUAN, alpha, &config);
    /* the base that llama.cpp's converter states for these numbers: 11158839.9251 */
    assert_float_equal(config.ropes[0].inverse_frequency[63], pow(11158839.9251, -126.0 / 128),
                       1e-12);
    hf_config_case_must_read(HUNYUAN, "\"num_experts\":1", &config);
    assert_int_equal(config.experts.count, 0);
    hf_config_case_must_refuse(HUNYUAN, "\"num_experts\":8", "num_experts");
    hf_config_case_must_refuse(HUNYUAN, "\"use_cla\":true", "use_cla");
    hf_config_case_must_refuse(
        HUNYUAN, "\"head_dim\":2,\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":50.0}",
        "cannot rotate");
    hf_config_case_must_refuse(HUNYUAN, "\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":0.5}",
                               "alpha");
    hf_config_case_must_read(HUNYUAN_MOE, "\"moe_topk\":[3,3,3,3,3]", &config);
    assert_int_equal(config.experts.chosen, 3);
    assert_int_equal(config.experts.shared, 96);
    hf_config_case_must_refuse(HUNYUAN_MOE, "\"moe_topk\":[3,3,3,3,2]", "differs between layers");
    hf_config_case_must_refuse(HUNYUAN_MOE, "\"moe_topk\":9", "9 experts of 8");
    hf_config_case_must_refuse(HUNYUAN_MOE, "\"moe_topk\":[3,3]", "moe_topk");
}

static void test_lfm2(void **state)
{
    (void)state;
    const char *kinds = "\"layer_types\":[\"conv\",\"conv\",\"full_attention\",\"conv\",\"conv\"]";
    hf_config_case_must_read(LFM2_MOE, kinds, &config);
    assert_int_equal(layers(), 0x1c);
    assert_int_equal(config.feed_forward, 96);
    assert_true(config.experts.sigmoid && config.experts.choice_bias);
    hf_config_case_must_refuse(LFM2_MOE, "\"num_experts\":0", "num_experts");
    hf_config_case_must_refuse(LFM2_MOE, "\"num_experts\":3", "4 experts of 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ernie),   cmocka_unit_test(test_glm),  cmocka_unit_test(test_minimax),
        cmocka_unit_test(test_hunyuan), cmocka_unit_test(test_lfm2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
