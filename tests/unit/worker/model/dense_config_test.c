/*
 * What the config.json of llama's neighbours comes to: windows by null, absence and layer, the
 * defaults of their classes, position scales, and a family found behind a class of several parts.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "worker/model/family_registry.h"

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,"                         \
    "\"num_attention_heads\":4,\"vocab_size\":100,\"max_position_embeddings\":512"
#define MISTRAL    "\"model_type\":\"mistral\",\"num_key_value_heads\":2," SIZES
#define QWEN2      "\"model_type\":\"qwen2\",\"num_key_value_heads\":2," SIZES
#define PHI3       "\"model_type\":\"phi3\"," SIZES
#define MINISTRAL3 "\"model_type\":\"ministral3\",\"num_key_value_heads\":2," SIZES

static struct model_config config;
static struct error_text error;

static enum result read_config(const char *base, const char *more)
{
    static char json[8192];
    struct json_value root;
    const struct model_family *family;
    error.text[0] = '\0';
    int length = snprintf(json, sizeof json, "{%s%s%s}", base, more[0] ? "," : "", more);
    enum result result = json_value_open(json, (size_t)length, LIMIT_CONFIG_BYTES, &root, &error);
    if (result != RESULT_OK)
        fail_msg("%s: %s", json, error.text);
    return family_registry_read_hf(root, &family, &config, &error);
}

static void must_read(const char *base, const char *more)
{
    if (read_config(base, more) != RESULT_OK)
        fail_msg("%s: %s", more, error.text);
}

static void must_refuse(const char *base, const char *more, const char *words)
{
    if (read_config(base, more) == RESULT_OK)
        fail_msg("%s is read", more);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" lacks \"%s\"", error.text, words);
}

static void expect_windows(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const uint32_t windows[] = {a, b, c, d};
    for (uint32_t layer = 0; layer < 4; layer++)
        assert_int_equal(config.layer[layer].window, windows[layer]);
}

/* 4096 is the class's default, but the context of 512 cannot outgrow it. */
static void test_mistral_windows(void **state)
{
    (void)state;
    must_read(MISTRAL, "");
    expect_windows(0, 0, 0, 0);
    must_read(MISTRAL, "\"max_position_embeddings\":8192");
    expect_windows(4096, 4096, 4096, 4096);
    must_read(MISTRAL, "\"max_position_embeddings\":8192,\"sliding_window\":null");
    expect_windows(0, 0, 0, 0);
    must_read(MISTRAL, "\"sliding_window\":5");
    expect_windows(5, 5, 5, 5);
    must_refuse(MISTRAL, "\"sliding_window\":0", "sliding_window");
    assert_string_equal(config.architecture, "mistral");
}

static void test_qwen_windows(void **state)
{
    (void)state;
    must_read(QWEN2, "\"sliding_window\":5,\"max_window_layers\":1");
    expect_windows(0, 0, 0, 0);
    must_read(QWEN2, "\"sliding_window\":5,\"max_window_layers\":1,\"use_sliding_window\":true");
    expect_windows(0, 5, 5, 5);
    must_read(QWEN2, "\"sliding_window\":5,\"use_sliding_window\":true,\"layer_types\":["
                     "\"sliding_attention\",\"full_attention\",\"full_attention\","
                     "\"sliding_attention\"]");
    expect_windows(5, 0, 0, 5);
    must_read(QWEN2, "\"sliding_window\":null,\"use_sliding_window\":true,\"max_window_layers\":0");
    expect_windows(0, 0, 0, 0);
    must_refuse(QWEN2, "\"layer_types\":[\"full_attention\"]", "1 elements for 4 layers");
    must_refuse(QWEN2, "\"layer_types\":[\"chunked_attention\",1,2,3]", "element 0");
    must_refuse(QWEN2, "\"layer_types\":4", "not an array");
    must_refuse(QWEN2, "\"partial_rotary_factor\":0.5", "partial_rotary_factor");
}

static void test_defaults(void **state)
{
    (void)state;
    must_read("\"model_type\":\"mistral\"", "");
    assert_int_equal(config.feed_forward, 14336);
    assert_int_equal(config.kv_heads, 8);
    assert_int_equal(config.context_tokens, 131072);
    must_read("\"model_type\":\"qwen2\"", "");
    assert_int_equal(config.feed_forward, 22016);
    assert_int_equal(config.vocab_tokens, 151936);
    assert_int_equal(config.context_tokens, 32768);
    must_read("\"model_type\":\"qwen3\"", "");
    assert_int_equal(config.head_dim, 128);
    must_read("\"model_type\":\"phi3\"", "");
    assert_int_equal(config.hidden, 3072);
    assert_int_equal(config.kv_heads, 32);
    assert_int_equal(config.context_tokens, 4096);
    must_read("\"model_type\":\"ministral3\"", "");
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
    must_read(PHI3, "\"partial_rotary_factor\":0.75,\"sliding_window\":100");
    assert_int_equal(config.ropes[0].dims, 12);
    expect_windows(100, 100, 100, 100);
    must_read(PHI3, "");
    assert_int_equal(config.ropes[0].dims, 16);
    expect_windows(0, 0, 0, 0);
}

static void test_position_scale(void **state)
{
    (void)state;
    must_read(MINISTRAL3,
              "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":2,\"rope_theta\":9,"
              "\"original_max_position_embeddings\":256,\"llama_4_scaling_beta\":0.5}");
    assert_true(config.position_scale_beta == 0.5f);
    assert_int_equal(config.position_scale_tokens, 256);
    must_read(MINISTRAL3, "\"rope_parameters\":{\"rope_type\":\"default\"}");
    assert_int_equal(config.position_scale_tokens, 0);
    must_refuse(MINISTRAL3, "\"rope_parameters\":{\"llama_4_scaling_beta\":-1}",
                "llama_4_scaling_beta");
}

/* A model that sees names its text's family inside. */
static void test_text_part(void **state)
{
    (void)state;
    must_read("\"model_type\":\"mistral3\"", "\"text_config\":{" MINISTRAL3 "}");
    assert_string_equal(config.architecture, "mistral3");
    must_read("\"model_type\":\"mistral3\"", "\"text_config\":{" MISTRAL "}");
    assert_string_equal(config.architecture, "mistral");
    must_refuse("\"model_type\":\"mistral3\"", "\"text_config\":{}", "mistral3");
    must_refuse("\"model_type\":\"mistral3\"", "\"text_config\":{\"model_type\":\"gpt9\"}",
                "mistral3");
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
