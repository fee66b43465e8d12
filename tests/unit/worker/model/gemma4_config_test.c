/*
 * gemma4's config.json: two kinds of layers with different sizes, which layers share keys, which
 * are wider, and refusals by the key's name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/hf_config_case.h"

#define BASE                                                                                       \
    "\"model_type\":\"gemma4_text\",\"hidden_size\":64,\"intermediate_size\":96,"                  \
    "\"num_hidden_layers\":5,\"num_attention_heads\":4,\"num_key_value_heads\":2,"                 \
    "\"head_dim\":16,\"global_head_dim\":32,\"vocab_size\":100,\"sliding_window\":8,"              \
    "\"max_position_embeddings\":512,\"layer_types\":[" S "," S "," G "," S "," G "]"
#define S "\"sliding_attention\""
#define G "\"full_attention\""

#define MIXTURE "\"enable_moe_block\":true,\"num_experts\":8,\"moe_intermediate_size\":24"

static struct model_config config;

static void must_read(const char *more)
{
    hf_config_case_must_read(BASE, more, &config);
}

static void must_refuse(const char *more, const char *words)
{
    hf_config_case_must_refuse(BASE, more, words);
}

/* transformers 5 lists the layers whose sizes differ, and has no global_head_dim. */
static void test_own_sizes(void **state)
{
    (void)state;
    must_read("\"global_head_dim\":99,\"per_layer_config\":{\"2\":{\"head_dim\":64,"
              "\"num_key_value_heads\":1},\"04\":{\"head_dim\":64},\"0\":{}}");
    for (uint32_t layer = 0; layer < 5; layer++) {
        assert_int_equal(model_config_head_dim(&config, layer),
                         layer % 2 == 0 && layer > 0 ? 64 : 16);
        assert_int_equal(model_config_kv_heads(&config, layer), layer == 2 ? 1 : 2);
    }
    assert_int_equal(config.ropes[config.layer[2].rope].dims, 64);
    must_read("\"per_layer_config\":{}");
    assert_int_equal(model_config_head_dim(&config, 4), 16);
}

static void test_layers(void **state)
{
    (void)state;
    must_read("\"attention_k_eq_v\":true,\"num_global_key_value_heads\":1,"
              "\"num_kv_shared_layers\":2,\"use_double_wide_mlp\":true");
    for (uint32_t layer = 0; layer < 5; layer++) {
        bool global = layer == 2 || layer == 4;
        assert_int_equal(config.layer[layer].window, global ? 0 : 8);
        assert_int_equal(model_config_head_dim(&config, layer), global ? 32 : 16);
        assert_int_equal(model_config_kv_heads(&config, layer), global ? 1 : 2);
        assert_int_equal(model_config_feed_forward(&config, layer), layer < 3 ? 96 : 192);
        assert_int_equal(model_config_cache(&config, layer), layer == 3   ? 1
                                                             : layer == 4 ? 2
                                                                          : layer);
        assert_int_equal(config.layer[layer].values_are_keys, global);
    }
    const struct rope_config *global = &config.ropes[config.layer[2].rope];
    const struct rope_config *local = &config.ropes[config.layer[0].rope];
    assert_int_equal(global->dims, 32);
    assert_true(global->inverse_frequency[3] > 0.0f); /* by default a quarter rotates */
    assert_true(global->inverse_frequency[4] == 0.0f);
    assert_int_equal(local->dims, 16);
    assert_true(local->inverse_frequency[7] > 0.0f);
}

static void test_plain_layers(void **state)
{
    (void)state;
    must_read("\"num_global_key_value_heads\":1,\"hidden_size_per_layer_input\":0");
    assert_int_equal(model_config_kv_heads(&config, 2),
                     2); /* only in layers whose values are their keys */
    assert_int_equal(model_config_cache(&config, 4), 4);
    assert_int_equal(config.per_layer_columns, 0);
    must_read("\"vocab_size_per_layer_input\":90,\"final_logit_softcapping\":30.0,"
              "\"use_bidirectional_attention\":\"vision\"");
    assert_int_equal(config.per_layer_columns, 256);
    assert_int_equal(config.per_layer_tokens, 90);
    assert_true(config.logit_soft_cap == 30.0f);
    assert_int_equal(config.experts.count, 0);
    must_read(MIXTURE ",\"top_k_experts\":2");
    assert_int_equal(config.experts.count, 8);
    assert_int_equal(config.experts.feed_forward, 24);
    assert_true(config.experts.normalized && config.layer[4].experts);
    must_read("\"num_hidden_layers\":2,\"layer_types\":[" G "," S "]");
    assert_int_equal(config.layer[1].window, 0); /* the last layer is always global */
}

static void test_refusals(void **state)
{
    (void)state;
    must_refuse("\"num_kv_shared_layers\":5", "none stores any");
    must_refuse("\"num_kv_shared_layers\":3", "layer 2: no layer of its kind");
    must_refuse("\"enable_moe_block\":true", "num_experts is missing");
    must_refuse(MIXTURE ",\"top_k_experts\":9", "9 experts of 8");
    must_refuse(MIXTURE, "top_k_experts is missing");
    must_refuse("\"use_bidirectional_attention\":\"all\"", "use_bidirectional_attention");
    must_refuse("\"layer_types\":[" S "]", "layer_types has 1 elements");
    must_refuse("\"layer_types\":[1]", "layer_types: element 0");
    must_refuse("\"layer_types\":3", "layer_types is not an array");
    must_refuse("\"attention_k_eq_v\":true,\"num_global_key_value_heads\":3", "evenly");
    must_refuse("\"vocab_size_per_layer_input\":101", "vocab_size_per_layer_input");
    must_refuse("\"hidden_size_per_layer_input\":5000", "hidden_size_per_layer_input");
    must_refuse("\"intermediate_size\":200000,\"use_double_wide_mlp\":true", "intermediate_size");
    must_refuse("\"rope_parameters\":{\"full_attention\":{}}", "lacks");
    must_refuse("\"global_head_dim\":1024", "global_head_dim");
    must_refuse("\"global_head_dim\":33", "global_head_dim 33 is odd");
    must_refuse("\"per_layer_config\":[]", "per_layer_config is not an object");
    must_refuse("\"per_layer_config\":{\"5\":{}}", "no layer \"5\"");
    must_refuse("\"per_layer_config\":{\"-1\":{}}", "no layer \"-1\"");
    must_refuse("\"per_layer_config\":{\"99999999999999999999\":{}}", "no layer");
    must_refuse("\"per_layer_config\":{\"2\":7}", "layer 2 is not an object");
    must_refuse("\"per_layer_config\":{\"2\":{\"sliding_window\":4}}", "sliding_window of its own");
    must_refuse("\"per_layer_config\":{\"2\":{\"head_dim\":0}}", "2.head_dim is 0");
    must_refuse("\"per_layer_config\":{\"0\":{\"head_dim\":32}}", "layer 0 has heads of 32");
    must_refuse("\"per_layer_config\":{\"2\":{\"head_dim\":32}}", "layer 2 has heads of 32");
    must_refuse("\"per_layer_config\":{\"1\":{\"num_key_value_heads\":3}}", "share 3 key-value");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_sizes),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_plain_layers),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
