/*
 * The config.json of llama and similar families: windows by null, absence and layer, defaults of
 * the configuration classes, position scales, and the text family named inside a multimodal config.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/hf_config_case.h"

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,"                         \
    "\"num_attention_heads\":4,\"vocab_size\":100,\"max_position_embeddings\":512"
#define MISTRAL    "\"model_type\":\"mistral\",\"num_key_value_heads\":2," SIZES
#define QWEN2      "\"model_type\":\"qwen2\",\"num_key_value_heads\":2," SIZES
#define PHI3       "\"model_type\":\"phi3\"," SIZES
#define MINISTRAL3 "\"model_type\":\"ministral3\",\"num_key_value_heads\":2," SIZES

static struct model_config config;

static void expect_windows(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const uint32_t windows[] = {a, b, c, d};
    for (uint32_t layer = 0; layer < 4; layer++)
        assert_int_equal(config.layer[layer].window, windows[layer]);
}

/* The class's default is 4096, which is not shorter than the context of 512: no window. */
static void test_mistral_windows(void **state)
{
    (void)state;
    hf_config_case_must_read(MISTRAL, "", &config);
    expect_windows(0, 0, 0, 0);
    hf_config_case_must_read(MISTRAL, "\"max_position_embeddings\":8192", &config);
    expect_windows(4096, 4096, 4096, 4096);
    hf_config_case_must_read(MISTRAL, "\"max_position_embeddings\":8192,\"sliding_window\":null",
                             &config);
    expect_windows(0, 0, 0, 0);
    hf_config_case_must_read(MISTRAL, "\"sliding_window\":5", &config);
    expect_windows(5, 5, 5, 5);
    hf_config_case_must_refuse(MISTRAL, "\"sliding_window\":0", "sliding_window");
    assert_string_equal(config.architecture, "mistral");
}

static void test_qwen_windows(void **state)
{
    (void)state;
    hf_config_case_must_read(QWEN2, "\"sliding_window\":5,\"max_window_layers\":1", &config);
    expect_windows(0, 0, 0, 0);
    hf_config_case_must_read(
        QWEN2, "\"sliding_window\":5,\"max_window_layers\":1,\"use_sliding_window\":true", &config);
    expect_windows(0, 5, 5, 5);
    hf_config_case_must_read(QWEN2,
                             "\"sliding_window\":5,\"use_sliding_window\":true,\"layer_types\":["
                             "\"sliding_attention\",\"full_attention\",\"full_attention\","
                             "\"sliding_attention\"]",
                             &config);
    expect_windows(5, 0, 0, 5);
    hf_config_case_must_read(
        QWEN2, "\"sliding_window\":null,\"use_sliding_window\":true,\"max_window_layers\":0",
        &config);
    expect_windows(0, 0, 0, 0);
    hf_config_case_must_refuse(QWEN2, "\"layer_types\":[\"full_attention\"]",
                               "1 elements for 4 layers");
    hf_config_case_must_refuse(QWEN2, "\"layer_types\":[\"chunked_attention\",1,2,3]", "element 0");
    hf_config_case_must_refuse(QWEN2, "\"layer_types\":4", "not an array");
    hf_config_case_must_refuse(QWEN2, "\"partial_rotary_factor\":0.5", "partial_rotary_factor");
}

static void test_defaults(void **state)
{
    (void)state;
    hf_config_case_must_read("\"model_type\":\"mistral\"", "", &config);
    assert_int_equal(config.feed_forward, 14336);
    assert_int_equal(config.kv_heads, 8);
    assert_int_equal(config.context_tokens, 131072);
    hf_config_case_must_read("\"model_type\":\"qwen2\"", "", &config);
    assert_int_equal(config.feed_forward, 22016);
    assert_int_equal(config.vocab_tokens, 151936);
    assert_int_equal(config.context_tokens, 32768);
    hf_config_case_must_read("\"model_type\":\"qwen3\"", "", &config);
    assert_int_equal(config.head_dim, 128);
    hf_config_case_must_read("\"model_type\":\"phi3\"", "", &config);
    assert_int_equal(config.hidden, 3072);
    assert_int_equal(config.kv_heads, 32);
    assert_int_equal(config.context_tokens, 4096);
    hf_config_case_must_read("\"model_type\":\"ministral3\"", "", &config);
    assert_int_equal(config.layers, 34);
    assert_int_equal(config.context_tokens, 262144);
    assert_int_equal(config.position_scale_tokens, 16384);
    assert_true(config.position_scale_beta == 0.1f);
    assert_true(config.ropes[0].magnitude == 1.0f);
    assert_true(config.ropes[0].inverse_frequency[63] < 1.3e-6f / 16);
}

static void test_parts_of_heads(void **state)
{
    (void)state;
    hf_config_case_must_read(PHI3, "\"partial_rotary_factor\":0.75,\"sliding_window\":100",
                             &config);
    assert_int_equal(config.ropes[0].dims, 12);
    expect_windows(100, 100, 100, 100);
    hf_config_case_must_read(PHI3, "", &config);
    assert_int_equal(config.ropes[0].dims, 16);
    expect_windows(0, 0, 0, 0);
}

static void test_position_scale(void **state)
{
    (void)state;
    hf_config_case_must_read(
        MINISTRAL3,
        "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":2,\"rope_theta\":9,"
        "\"original_max_position_embeddings\":256,\"llama_4_scaling_beta\":0.5}",
        &config);
    assert_true(config.position_scale_beta == 0.5f);
    assert_int_equal(config.position_scale_tokens, 256);
    hf_config_case_must_read(MINISTRAL3, "\"rope_parameters\":{\"rope_type\":\"default\"}",
                             &config);
    assert_int_equal(config.position_scale_tokens, 0);
    hf_config_case_must_refuse(MINISTRAL3, "\"rope_parameters\":{\"llama_4_scaling_beta\":-1}",
                               "llama_4_scaling_beta");
}

/* A multimodal config names its text's family in text_config. */
static void test_text_part(void **state)
{
    (void)state;
    hf_config_case_must_read("\"model_type\":\"mistral3\"", "\"text_config\":{" MINISTRAL3 "}",
                             &config);
    assert_string_equal(config.architecture, "mistral3");
    hf_config_case_must_read("\"model_type\":\"mistral3\"", "\"text_config\":{" MISTRAL "}",
                             &config);
    assert_string_equal(config.architecture, "mistral");
    hf_config_case_must_refuse("\"model_type\":\"mistral3\"", "\"text_config\":{}", "mistral3");
    hf_config_case_must_refuse("\"model_type\":\"mistral3\"",
                               "\"text_config\":{\"model_type\":\"gpt9\"}", "mistral3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistral_windows), cmocka_unit_test(test_qwen_windows),
        cmocka_unit_test(test_defaults),        cmocka_unit_test(test_parts_of_heads),
        cmocka_unit_test(test_position_scale),  cmocka_unit_test(test_text_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
