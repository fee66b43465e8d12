/*
 * config.json of families with recurrent layers: which layers attend, in each of the three
 * spellings; the class's defaults; and refusals by the key's name. If a member occurs twice, the
 * last one counts.
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
#include "worker/plan/kv_layout.h"
#include "worker/plan/state_layout.h"

#define LFM2                                                                                       \
    "\"model_type\":\"lfm2\",\"hidden_size\":64,\"num_hidden_layers\":4,\"vocab_size\":100,"       \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2"
#define QWEN3_5                                                                                    \
    "\"model_type\":\"qwen3_5_text\",\"hidden_size\":64,\"num_hidden_layers\":5,"                  \
    "\"vocab_size\":100,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16"
#define QWEN3_5_MOE "\"model_type\":\"qwen3_5_moe_text\",\"num_hidden_layers\":2"

static struct model_config config;
static struct error_text error;

/* `kinds`: a letter for each layer, a for attention. */
static void must_read(const char *base, const char *more, const char *kinds)
{
    hf_config_case_must_read(base, more, &config);
    assert_int_equal(config.layers, strlen(kinds));
    for (uint32_t layer = 0; layer < config.layers; layer++)
        if ((config.layer[layer].kind == LAYER_ATTENTION) != (kinds[layer] == 'a'))
            fail_msg("%s: layer %u is not %c", more, layer, kinds[layer]);
}

static void must_refuse(const char *base, const char *more, const char *words)
{
    if (hf_config_case_read(base, more, &config, &error) == RESULT_OK)
        fail_msg("%s: accepted", more);
    if (!strstr(error.text, "config.json") || !strstr(error.text, words))
        fail_msg("%s: \"%s\" lacks \"%s\"", more, error.text, words);
}

static void test_lfm2(void **state)
{
    (void)state;
    must_read(LFM2, "\"layer_types\":[\"conv\",\"full_attention\",\"conv\",\"conv\"]", "cacc");
    assert_int_equal(config.layer[0].kind, LAYER_SHORT_CONV);
    assert_int_equal(config.conv_taps, 3);
    assert_int_equal(config.conv_channels, 64);
    assert_int_equal(config.feed_forward, 8192); /* two thirds of 12,288 */
    assert_int_equal(config.context_tokens, 128000);
    assert_true(config.tied_embeddings);
    must_read(LFM2, "\"full_attn_idxs\":[0,3],\"tie_embedding\":false", "acca");
    assert_false(config.tied_embeddings);
    must_read(LFM2, "", "aaaa");
    must_read(LFM2, "\"block_ff_dim\":100,\"block_multiple_of\":16,\"conv_L_cache\":5", "aaaa");
    assert_int_equal(config.feed_forward, 80); /* 66, rounded up */
    assert_int_equal(config.conv_taps, 5);
    must_read(LFM2, "\"intermediate_size\":100,\"block_auto_adjust_ff_dim\":false", "aaaa");
    assert_int_equal(config.feed_forward, 100);
}

static void test_lfm2_refusals(void **state)
{
    (void)state;
    must_refuse(LFM2, "\"layer_types\":[\"conv\",\"full_attention\"]", "2 elements for 4 layers");
    must_refuse(LFM2, "\"layer_types\":[\"conv\",\"mamba\",\"conv\",\"conv\"]", "element 1");
    must_refuse(LFM2, "\"layer_types\":\"conv\"", "not an array");
    must_refuse(LFM2, "\"full_attn_idxs\":[4]", "full_attn_idxs");
    must_refuse(LFM2, "\"full_attn_idxs\":[-1]", "full_attn_idxs");
    must_refuse(LFM2, "\"conv_bias\":\"true\"", "conv_bias");
    must_refuse(LFM2, "\"conv_L_cache\":1", "conv_L_cache");
    must_refuse(LFM2, "\"conv_L_cache\":9", "conv_L_cache");
    must_refuse(LFM2, "\"block_ff_dim\":1,\"block_multiple_of\":1", "feed-forward");
    must_refuse(LFM2, "\"block_ffn_dim_multiplier\":1000", "feed-forward");
}

static void test_qwen3_5(void **state)
{
    (void)state;
    must_read(QWEN3_5, "", "dddad");
    assert_int_equal(config.layer[0].kind, LAYER_GATED_DELTA);
    assert_int_equal(config.conv_taps, 4);
    assert_int_equal(config.delta.key_heads, 16);
    assert_int_equal(config.delta.value_heads, 32);
    assert_int_equal(config.conv_channels, 2 * 16 * 128 + 32 * 128);
    assert_int_equal(config.ropes[0].dims, 4);
    assert_true(config.norm_weight_offset == 1.0f);
    assert_true(config.delta.rate_is_log && !config.delta.heads_alternate);
    must_read(QWEN3_5, "\"full_attention_interval\":2", "dadad");
    must_read("\"model_type\":\"qwen3_5\"",
              "\"text_config\":{\"num_hidden_layers\":2,\"layer_types\":[\"linear_attention\","
              "\"full_attention\"],\"linear_num_key_heads\":1,\"linear_key_head_dim\":8,"
              "\"rope_parameters\":{\"partial_rotary_factor\":0.5,\"rope_theta\":100}}",
              "da");
    assert_int_equal(config.conv_channels, 2 * 8 + 32 * 128);
    assert_int_equal(config.ropes[0].dims, 128);
}

static void test_qwen3_5_moe(void **state)
{
    (void)state;
    must_read("\"model_type\":\"qwen3_5_moe\"", "\"text_config\":{\"num_hidden_layers\":4}",
              "ddda");
    assert_int_equal(config.hidden, 2048);
    assert_int_equal(config.kv_heads, 2);
    assert_int_equal(config.feed_forward, 512);
    assert_int_equal(config.context_tokens, 32768);
    assert_int_equal(config.experts.count, 256);
    assert_int_equal(config.experts.chosen, 8);
    assert_int_equal(config.experts.feed_forward, 512);
    assert_true(config.experts.normalized && config.layer[3].experts);
    assert_true(config.norm_weight_offset == 1.0f);
    must_read(QWEN3_5_MOE,
              "\"num_experts\":9,\"num_experts_per_tok\":4,\"moe_intermediate_size\":40,"
              "\"shared_expert_intermediate_size\":56,\"intermediate_size\":7,"
              "\"norm_topk_prob\":false",
              "dd");
    assert_int_equal(config.experts.count, 9);
    assert_int_equal(config.experts.feed_forward, 40);
    assert_int_equal(config.feed_forward, 56);
    assert_true(config.experts.normalized && config.layer[1].experts);
    must_refuse(QWEN3_5_MOE, "\"num_experts\":7", "8 experts of 7");
    must_refuse(QWEN3_5_MOE, "\"shared_expert_intermediate_size\":0", "shared_expert");
}

static void test_qwen3_5_refusals(void **state)
{
    (void)state;
    must_refuse(QWEN3_5, "\"linear_num_key_heads\":5", "evenly");
    must_refuse(QWEN3_5, "\"linear_num_value_heads\":0", "linear_num_value_heads");
    must_refuse(QWEN3_5, "\"linear_key_head_dim\":513", "linear_key_head_dim");
    must_refuse(QWEN3_5, "\"linear_num_value_heads\":1024,\"linear_value_head_dim\":512",
                "columns");
    must_refuse(QWEN3_5, "\"linear_conv_kernel_dim\":9", "linear_conv_kernel_dim");
    must_refuse(QWEN3_5, "\"attn_output_gate\":false", "attn_output_gate");
    must_refuse(QWEN3_5, "\"full_attention_interval\":0", "full_attention_interval");
}

static void test_layouts(void **state)
{
    (void)state;
    struct kv_layout kv;
    struct state_layout states;
    must_read(QWEN3_5, "", "dddad");
    assert_int_equal(kv_layout_init(&kv, &config, &error), RESULT_OK);
    assert_int_equal(kv.group_count, 1);
    assert_int_equal(kv.groups[0].layers, 1);
    assert_int_equal(kv.layer_group[0], KV_GROUP_NONE);
    assert_int_equal(kv.layer_group[3], 0);
    assert_int_equal(state_layout_init(&states, &config, &error), RESULT_OK);
    assert_int_equal(states.layers, 4);
    assert_int_equal(states.layer_index[3], STATE_LAYER_NONE);
    assert_int_equal(states.layer_index[4], 3);
    assert_int_equal(states.conv_floats, 3 * config.conv_channels);
    assert_int_equal(states.delta_floats, 32 * 128 * 128);
    assert_int_equal(state_layout_slot_bytes(&states),
                     4 * sizeof(float) * (3 * config.conv_channels + 32 * 128 * 128));
    config.delta.value_heads = 1024;
    config.delta.key_dim = config.delta.value_dim = LIMIT_HEAD_DIM;
    assert_int_equal(state_layout_init(&states, &config, &error), RESULT_TOO_LARGE);
    must_read(LFM2, "\"full_attn_idxs\":[]", "cccc");
    assert_int_equal(kv_layout_init(&kv, &config, &error), RESULT_OK);
    assert_int_equal(kv.layer_group[0], KV_GROUP_NONE);
    must_read(LFM2, "", "aaaa");
    assert_int_equal(state_layout_init(&states, &config, &error), RESULT_OK);
    assert_int_equal(state_layout_slot_bytes(&states), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lfm2),
        cmocka_unit_test(test_lfm2_refusals),
        cmocka_unit_test(test_qwen3_5),
        cmocka_unit_test(test_qwen3_5_moe),
        cmocka_unit_test(test_qwen3_5_refusals),
        cmocka_unit_test(test_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
