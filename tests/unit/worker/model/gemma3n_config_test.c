/*
 * gemma3n's config.json: which layers cut their gates and where, which layers share keys, widths by
 * layer, the class's defaults, and refusals by the key's name.
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

#define BASE                                                                                       \
    "\"model_type\":\"gemma3n_text\",\"hidden_size\":64,\"num_attention_heads\":4,"                \
    "\"num_key_value_heads\":2,\"head_dim\":16,\"vocab_size\":100,\"sliding_window\":8,"           \
    "\"vocab_size_per_layer_input\":90"
#define FIVE                                                                                       \
    "\"num_hidden_layers\":5,\"intermediate_size\":[96,96,96,64,64],\"num_kv_shared_layers\":2,"   \
    "\"layer_types\":[" S "," S "," G "," S "," G "]"
#define S "\"sliding_attention\""
#define G "\"full_attention\""

static struct model_config config;

static void must_read(const char *more)
{
    hf_config_case_must_read(BASE, more, &config);
}

static void must_refuse(const char *more, const char *words)
{
    hf_config_case_must_refuse(BASE, more, words);
}

static void test_layers(void **state)
{
    (void)state;
    must_read(FIVE ",\"activation_sparsity_pattern\":[0.95,0.5,0.0,0,0.0]");
    static const uint32_t caches[] = {0, 1, 2, 1, 2};
    for (uint32_t layer = 0; layer < 5; layer++) {
        assert_int_equal(model_config_cache(&config, layer), caches[layer]);
        assert_int_equal(model_config_feed_forward(&config, layer), layer < 3 ? 96 : 64);
        assert_int_equal(config.layer[layer].cuts, layer < 2);
        assert_int_equal(config.layer[layer].window, layer == 2 || layer == 4 ? 0 : 8);
    }
    /* 95 % of a normal distribution lie below 1.6449 deviations, half of it below the mean. */
    assert_true(fabsf(config.layer[0].cut_deviations - 1.6448536f) < 1e-6f);
    assert_true(fabsf(config.layer[1].cut_deviations) < 1e-6f);
    assert_int_equal(config.streams, 4);
    assert_int_equal(config.laurel_rank, 64);
    assert_int_equal(config.per_layer_columns, 256);
    assert_int_equal(config.per_layer_tokens, 90);
    assert_true(config.logit_soft_cap == 30.0f);
}

static void test_defaults(void **state)
{
    (void)state;
    must_read("\"num_hidden_layers\":30");
    assert_int_equal(config.context_tokens, 32768);
    assert_int_equal(config.layer[14].window, 0);
    assert_int_equal(config.layer[13].window, 8);
    assert_true(config.layer[9].cuts && !config.layer[10].cuts);
    assert_int_equal(model_config_cache(&config, 15), 13);
    assert_int_equal(model_config_cache(&config, 29), 14);
}

static void test_refusals(void **state)
{
    (void)state;
    must_refuse(FIVE ",\"altup_active_idx\":4", "altup_active_idx");
    must_refuse(FIVE ",\"altup_num_inputs\":5", "altup_num_inputs");
    must_refuse(FIVE ",\"activation_sparsity_pattern\":[0.5]", "1 elements for 5 layers");
    must_refuse(FIVE ",\"activation_sparsity_pattern\":[1,0,0,0,0]", "element 0 is 1");
    must_refuse(FIVE ",\"activation_sparsity_pattern\":[0,\"a\",0,0,0]", "element 1");
    must_refuse(FIVE ",\"activation_sparsity_pattern\":0.5", "is not an array");
    must_refuse(FIVE ",\"intermediate_size\":[96]", "intermediate_size has not one");
    must_refuse(FIVE ",\"intermediate_size\":[96,0,1,1,1]", "layer 1 has 0");
    must_refuse(FIVE ",\"intermediate_size\":[1,2,3,4,5]", "more than 4 different");
    must_refuse(FIVE ",\"intermediate_size\":[1,2,3,4,-5]", "no 32-bit count");
    must_refuse(FIVE ",\"vocab_size_per_layer_input\":101", "vocab_size_per_layer_input");
    must_refuse(FIVE ",\"laurel_rank\":0", "laurel_rank");
    must_refuse(FIVE ",\"num_kv_shared_layers\":6", "none stores any");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
