/*
 * config.json: the keys that families read, what their absence means, and refusals by the key's
 * name. A case appends members to a valid config; if a member occurs twice, the last one counts.
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

#define LLAMA                                                                                      \
    "\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":96,"                        \
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":100,"                        \
    "\"max_position_embeddings\":512,\"rms_norm_eps\":1e-5"
#define GEMMA3                                                                                     \
    "\"model_type\":\"gemma3_text\",\"hidden_size\":64,\"intermediate_size\":96,"                  \
    "\"num_hidden_layers\":7,\"num_attention_heads\":4,\"num_key_value_heads\":2,"                 \
    "\"head_dim\":32,\"vocab_size\":100,\"max_position_embeddings\":512,\"sliding_window\":8"

#define GEMMA2                                                                                     \
    "\"model_type\":\"gemma2\",\"hidden_size\":64,\"num_hidden_layers\":4,"                        \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":32,\"sliding_window\":8"
#define GLM4                                                                                       \
    "\"model_type\":\"glm4\",\"hidden_size\":64,\"num_hidden_layers\":2,"                          \
    "\"num_attention_heads\":4,\"head_dim\":24"
#define COHERE2                                                                                    \
    "\"model_type\":\"cohere2\",\"hidden_size\":64,\"num_hidden_layers\":8,"                       \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"sliding_window\":8"

static struct model_config config;

static void assert_near(float have, double want)
{
    if (!(fabs((double)have - want) <= 1e-6 * fabs(want)))
        fail_msg("%g, not %g", (double)have, want);
}

static void test_llama(void **state)
{
    (void)state;
    hf_config_case_must_read(LLAMA, "", &config);
    assert_string_equal(config.architecture, "llama");
    assert_int_equal(config.kv_heads, 4);
    assert_int_equal(config.head_dim, 16);
    assert_int_equal(config.context_tokens, 512);
    assert_false(config.tied_embeddings);
    assert_near(config.attention_scale, 0.25);
    assert_true(config.norm_weight_offset == 0.0f);
    assert_int_equal(config.ropes[0].pairing, ROPE_PAIRS_HALVES);
    assert_near(config.ropes[0].inverse_frequency[1], pow(10000, -0.125));
    hf_config_case_must_read(
        LLAMA,
        "\"head_dim\":24,\"num_key_value_heads\":2,\"tie_word_embeddings\":true,"
        "\"rope_theta\":500000,\"hidden_act\":null,\"rope_scaling\":null",
        &config);
    assert_int_equal(config.head_dim, 24);
    assert_int_equal(config.kv_heads, 2);
    assert_true(config.tied_embeddings);
    assert_near(config.ropes[0].inverse_frequency[1], pow(500000, -1.0 / 12));
}

/* Saved configs leave out the class's defaults. */
static void test_defaults(void **state)
{
    (void)state;
    hf_config_case_must_read("\"model_type\":\"llama\"", "", &config);
    assert_int_equal(config.layers, 32);
    assert_int_equal(config.hidden, 4096);
    assert_int_equal(config.feed_forward, 11008);
    assert_int_equal(config.kv_heads, 32);
    assert_int_equal(config.head_dim, 128);
    assert_int_equal(config.context_tokens, 2048);
    hf_config_case_must_read("\"model_type\":\"gemma3\"",
                             "\"text_config\":{\"hidden_size\":2560,\"num_hidden_layers\":34}",
                             &config);
    assert_int_equal(config.hidden, 2560);
    assert_int_equal(config.layers, 34);
    assert_int_equal(config.heads, 8);
    assert_int_equal(config.kv_heads, 4);
    assert_int_equal(config.head_dim, 256);
    assert_int_equal(config.vocab_tokens, 262208);
    assert_int_equal(config.context_tokens, 131072);
    assert_int_equal(config.layer[0].window, 4096);
    assert_true(config.tied_embeddings);
}

static void test_scaled_ropes(void **state)
{
    (void)state;
    hf_config_case_must_read(LLAMA, "\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0}",
                             &config);
    assert_near(config.ropes[0].inverse_frequency[1], pow(10000, -0.125) / 4);
    const char *const llama3[] = {
        "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
        "\"high_freq_factor\":4,\"original_max_position_embeddings\":64}",
        /* the same as newer versions of transformers write it */
        "\"rope_theta\":7,\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":10000,"
        "\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
        "\"original_max_position_embeddings\":64}",
    };
    for (size_t i = 0; i < 2; i++) {
        hf_config_case_must_read(LLAMA, llama3[i], &config);
        const float *have = config.ropes[0].inverse_frequency;
        assert_near(have[0], 1); /* 10.2 waves within 64 positions: kept */
        double plain = pow(10000, -0.125), waves = 64 * plain / 6.283185307179586;
        double smooth = (waves - 1) / 3; /* 3.2 waves: between */
        assert_near(have[1], plain * (smooth + (1 - smooth) / 8));
        assert_near(have[7], pow(10000, -0.875) / 8); /* far less than a wave: divided by 8 */
    }
}

static void test_gemma3(void **state)
{
    (void)state;
    hf_config_case_must_read(GEMMA3,
                             "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8.0},"
                             "\"query_pre_attn_scalar\":16",
                             &config);
    assert_string_equal(config.architecture, "gemma3");
    assert_near(config.attention_scale, 0.25);
    assert_near(config.embedding_scale, 8);
    assert_true(config.norm_weight_offset == 1.0f);
    assert_int_equal(config.layer[4].window, 8);
    assert_int_equal(config.layer[5].window, 0);
    assert_int_equal(config.layer[6].window, 8);
    assert_near(config.ropes[config.layer[5].rope].inverse_frequency[1], pow(1e6, -1.0 / 16) / 8);
    assert_near(config.ropes[config.layer[0].rope].inverse_frequency[1], pow(1e4, -1.0 / 16));
    hf_config_case_must_read(GEMMA3, "\"sliding_window_pattern\":2", &config);
    assert_int_equal(config.layer[0].window, 8);
    assert_int_equal(config.layer[1].window, 0);
    hf_config_case_must_read(GEMMA3,
                             "\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\","
                             "\"sliding_attention\"]",
                             &config);
    assert_int_equal(config.layer[0].window, 0);
    assert_int_equal(config.layer[1].window, 8);
    hf_config_case_must_read(GEMMA3,
                             "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\","
                             "\"rope_theta\":900},\"sliding_attention\":{\"rope_theta\":30}}",
                             &config);
    assert_near(config.ropes[config.layer[5].rope].inverse_frequency[1], pow(900, -1.0 / 16));
    assert_near(config.ropes[config.layer[0].rope].inverse_frequency[1], pow(30, -1.0 / 16));
    hf_config_case_must_read(GEMMA3, "\"sliding_window\":512",
                             &config); /* no longer than the context */
    assert_int_equal(config.layer[0].window, 0);
}

static void test_gemma2(void **state)
{
    (void)state;
    hf_config_case_must_read(GEMMA2, "", &config);
    assert_near(config.attention_scale, 1.0 / 16); /* 1 / sqrt(256), not of head_dim */
    assert_near(config.attention_soft_cap, 50);
    assert_near(config.logit_soft_cap, 30);
    assert_near(config.logit_scale, 1);
    assert_near(config.embedding_scale, 8);
    assert_true(config.norm_weight_offset == 1.0f);
    assert_int_equal(config.rope_count, 1);
    for (uint32_t layer = 0; layer < 4; layer++) {
        assert_int_equal(config.layer[layer].window, layer % 2 == 0 ? 8 : 0);
        assert_int_equal(config.layer[layer].rope, 0);
    }
    hf_config_case_must_read(
        GEMMA2, "\"attn_logit_softcapping\":null,\"final_logit_softcapping\":null", &config);
    assert_true(config.attention_soft_cap == 0.0f && config.logit_soft_cap == 0.0f);
    hf_config_case_must_read(GEMMA2, "\"attn_logit_softcapping\":7,\"final_logit_softcapping\":9.5",
                             &config);
    assert_near(config.attention_soft_cap, 7);
    assert_near(config.logit_soft_cap, 9.5);
}

/* Classes of several parts whose tower no family has: their text is read if its class is known. */
static void test_other_wholes(void **state)
{
    (void)state;
    hf_config_case_must_read("\"model_type\":\"mistral3\"",
                             "\"text_config\":{\"model_type\":\"mistral\"}", &config);
    assert_true(config.tied_embeddings);
    hf_config_case_must_read("\"model_type\":\"mistral3\"",
                             "\"tie_word_embeddings\":false,"
                             "\"text_config\":{\"model_type\":\"mistral\"}",
                             &config);
    assert_false(config.tied_embeddings);
    hf_config_case_must_read("\"model_type\":\"mistral\"", "", &config);
    assert_false(config.tied_embeddings);
    hf_config_case_must_refuse("\"model_type\":\"fuyu\"",
                               "\"text_config\":{\"model_type\":\"llama\",\"hidden_act\":\"tanh\"}",
                               "model_type \"fuyu\" is not supported, and its text alone cannot be "
                               "used: hidden_act \"tanh\"");
    hf_config_case_must_refuse("\"model_type\":\"fuyu\"",
                               "\"text_config\":{\"model_type\":\"vicuna\"}",
                               "model_type \"fuyu\" is not supported");
}

/* Layers that attend to features, and tokens without logits. */
static void test_crossed_layers(void **state)
{
    (void)state;
    const char *model = "\"model_type\":\"mllama\"";
    hf_config_case_must_read(model, "\"text_config\":{\"model_type\":\"mllama_text_model\"}",
                             &config);
    assert_int_equal(config.layers, 40);
    assert_int_equal(config.crossed_layers, 8);
    assert_int_equal(config.vocab_tokens, 128256 + 8);
    assert_int_equal(config.layer[38].kind, LAYER_FEED_FORWARD);
    assert_int_equal(config.layer[39].kind, LAYER_ATTENTION);
    hf_config_case_must_read(
        model, "\"text_config\":{\"num_hidden_layers\":3,\"cross_attention_layers\":[2,0,2]}",
        &config);
    assert_int_equal(config.crossed_layers, 2);
    assert_int_equal(config.layer[1].kind, LAYER_ATTENTION);
    hf_config_case_must_refuse(
        model, "\"text_config\":{\"num_hidden_layers\":2,\"cross_attention_layers\":[0,1]}",
        "cross_attention_layers names none of 2 layers, or all");
    hf_config_case_must_refuse(
        model, "\"text_config\":{\"num_hidden_layers\":2,\"cross_attention_layers\":[]}",
        "cross_attention_layers names none of 2 layers, or all");
    hf_config_case_must_refuse(
        model, "\"text_config\":{\"num_hidden_layers\":2,\"cross_attention_layers\":[2]}",
        "cross_attention_layers is no list");
    hf_config_case_must_refuse(model, "\"text_config\":{\"hidden_size\":4096,\"head_dim\":64}",
                               "32 heads of 64");
}

/* Classes with a tower beside any text: the text's key decides what is refused. */
static void test_tower_wholes(void **state)
{
    (void)state;
    hf_config_case_must_refuse("\"model_type\":\"llava\"",
                               "\"text_config\":{\"model_type\":\"llama\",\"hidden_act\":\"tanh\"}",
                               "config.json: hidden_act \"tanh\", not \"silu\"");
    hf_config_case_must_refuse(
        "\"model_type\":\"llava\"", "\"text_config\":{\"model_type\":\"vicuna\"}",
        "the text of model_type \"llava\" has model_type \"vicuna\", which is "
        "not supported");
    hf_config_case_must_read("\"model_type\":\"llava\"",
                             "\"text_config\":{\"model_type\":\"llama\"}", &config);
    assert_false(config.tied_embeddings);
    hf_config_case_must_read(
        "\"model_type\":\"llava\",\"tie_word_embeddings\":false",
        "\"text_config\":{\"model_type\":\"llama\",\"tie_word_embeddings\":true}", &config);
    assert_true(config.tied_embeddings);
    hf_config_case_must_read("\"model_type\":\"llava_onevision\"",
                             "\"text_config\":{\"model_type\":\"qwen2\"}", &config);
    assert_false(config.tied_embeddings);
    hf_config_case_must_read("\"model_type\":\"internvl\"",
                             "\"text_config\":{\"model_type\":\"qwen2\"}", &config);
    assert_true(config.tied_embeddings);
    hf_config_case_must_read("\"model_type\":\"aya_vision\"",
                             "\"text_config\":{\"model_type\":\"llama\"}", &config);
    assert_true(config.tied_embeddings);
    hf_config_case_must_read("\"model_type\":\"internvl_chat\"",
                             "\"llm_config\":{\"model_type\":\"qwen3\",\"num_hidden_layers\":3}",
                             &config);
    assert_int_equal(config.layers, 3);
}

static void test_biases(void **state)
{
    (void)state;
    hf_config_case_must_read(LLAMA, "\"attention_bias\":true,\"mlp_bias\":true", &config);
    assert_true(config.attention_bias && config.output_bias && config.feed_forward_bias);
    hf_config_case_must_read(COHERE2, "\"attention_bias\":true", &config);
    assert_true(config.attention_bias && config.output_bias && !config.feed_forward_bias);
}

static void test_glm4(void **state)
{
    (void)state;
    hf_config_case_must_read(GLM4, "", &config);
    assert_true(config.attention_bias);
    assert_int_equal(config.kv_heads, 2);
    assert_int_equal(config.ropes[0].dims, 12);
    assert_int_equal(config.ropes[0].pairing, ROPE_PAIRS_ADJACENT);
    assert_near(config.ropes[0].inverse_frequency[1], pow(10000, -1.0 / 6));
    hf_config_case_must_read(GLM4, "\"attention_bias\":false,\"partial_rotary_factor\":0.25",
                             &config);
    assert_false(config.attention_bias);
    assert_int_equal(config.ropes[0].dims, 6);
    hf_config_case_must_read(
        GLM4, "\"rope_parameters\":{\"rope_theta\":81,\"partial_rotary_factor\":0.75}", &config);
    assert_int_equal(config.ropes[0].dims, 18);
    assert_near(config.ropes[0].inverse_frequency[1], pow(81, -1.0 / 9));
}

static void test_cohere2(void **state)
{
    (void)state;
    hf_config_case_must_read(COHERE2, "\"layer_norm_eps\":1e-3", &config);
    assert_near(config.norm_epsilon, 1e-3);
    assert_near(config.logit_scale, 0.0625);
    assert_int_equal(config.head_dim, 16);
    assert_true(config.tied_embeddings);
    assert_int_equal(config.ropes[0].pairing, ROPE_PAIRS_ADJACENT);
    for (uint32_t layer = 0; layer < 8; layer++) {
        bool global = layer % 4 == 3;
        assert_int_equal(config.layer[layer].window, global ? 0 : 8);
        assert_int_equal(config.layer[layer].rope, global ? ROPE_NONE : 0);
    }
    /* Layers whose window is not shorter than the context rotate all the same. */
    hf_config_case_must_read(COHERE2,
                             "\"logit_scale\":0.5,\"sliding_window\":8192,\"num_hidden_layers\":2,"
                             "\"layer_types\":[\"full_attention\",\"sliding_attention\"]",
                             &config);
    assert_near(config.logit_scale, 0.5);
    assert_int_equal(config.layer[1].window, 0);
    assert_int_equal(config.layer[0].rope, ROPE_NONE);
    assert_int_equal(config.layer[1].rope, 0);
}

/* As published; MiniCPM-2B states its class only. */
static void test_minicpm(void **state)
{
    (void)state;
    hf_config_case_must_read(
        "\"architectures\":[\"MiniCPMForCausalLM\"],\"hidden_size\":2304,"
        "\"intermediate_size\":5760,\"max_position_embeddings\":4096,\"num_attention_heads\":36,"
        "\"num_hidden_layers\":40,\"rms_norm_eps\":1e-05,\"rope_scaling\":null",
        "\"hidden_act\":\"silu\",\"vocab_size\":122753,\"scale_emb\":12,"
        "\"dim_model_base\":256,\"scale_depth\":1.4",
        &config);
    assert_string_equal(config.architecture, "minicpm");
    assert_true(config.tied_embeddings);
    assert_near(config.logit_scale, 256.0 / 2304.0);
    assert_near(config.embedding_scale, 12.0 / 1.4 * sqrt(40.0));
    assert_near(config.norm_epsilon, 1e-5 * 40.0 / (1.4 * 1.4));
}

static void test_granitemoe(void **state)
{
    (void)state;
    hf_config_case_must_read(
        "\"model_type\":\"granitemoe\",\"hidden_size\":1024,\"num_attention_heads\":16",
        "\"attention_multiplier\":0.015625,\"intermediate_size\":512,\"num_local_experts\":32,"
        "\"num_experts_per_tok\":8,\"num_hidden_layers\":3",
        &config);
    assert_int_equal(config.experts.count, 32);
    assert_int_equal(config.experts.chosen, 8);
    assert_int_equal(config.experts.feed_forward, 512);
    assert_true(config.layer[2].experts);
    assert_near(config.attention_scale, 0.015625);
}

struct refusal {
    const char *base;
    const char *more;
    enum result result;
    const char *words;
};

static const struct refusal refusals[] = {
    {"\"hidden_size\":1", "", RESULT_INVALID, "model_type is missing"},
    {"\"architectures\":[\"LlamaForCausalLM\"]", "", RESULT_INVALID, "model_type is missing"},
    {"\"architectures\":\"MiniCPMForCausalLM\"", "", RESULT_INVALID, "model_type is missing"},
    {"\"architectures\":[]", "", RESULT_INVALID, "model_type is missing"},
    {"\"architectures\":[\"MiniCPMForCausalLM\"]", "\"model_type\":\"mamba\"", RESULT_UNSUPPORTED,
     "model_type \"mamba\""},
    {"\"model_type\":\"minicpm\"", "\"sparse_config\":{\"topk\":64}", RESULT_UNSUPPORTED,
     "sparse_config"},
    {"\"model_type\":\"minicpm\"", "\"hidden_act\":\"fatrelu\"", RESULT_UNSUPPORTED, "fatrelu"},
    {"\"model_type\":\"minicpm\"", "\"dim_model_base\":0", RESULT_INVALID, "dim_model_base"},
    {"\"model_type\":\"stablelm\"", "\"qk_layernorm\":true", RESULT_UNSUPPORTED, "qk_layernorm"},
    {"\"model_type\":\"phi\"", "\"qk_layernorm\":true", RESULT_UNSUPPORTED, "qk_layernorm"},
    {"\"model_type\":\"apertus\"", "", RESULT_UNSUPPORTED, "rope_scaling"},
    {"\"model_type\":\"apertus\"", "\"rope_scaling\":{\"factor\":2},\"post_norm\":true",
     RESULT_UNSUPPORTED, "post_norm"},
    {"\"model_type\":\"granitemoe\"", "\"num_experts_per_tok\":9", RESULT_INVALID, "experts"},
    {"\"model_type\":\"granitemoe\"", "\"num_local_experts\":0", RESULT_INVALID,
     "num_local_experts"},
    {LLAMA, "\"model_type\":null", RESULT_INVALID, "model_type is missing"},
    {LLAMA, "\"model_type\":7", RESULT_INVALID, "model_type"},
    {LLAMA, "\"model_type\":\"lla\\u006da\"", RESULT_INVALID, "model_type"},
    {LLAMA, "\"model_type\":\"mamba\"", RESULT_UNSUPPORTED, "model_type \"mamba\""},
    {LLAMA, "\"model_type\":\"llama2\"", RESULT_UNSUPPORTED, "model_type \"llama2\""},
    {LLAMA, "\"hidden_size\":0", RESULT_INVALID, "hidden_size is 0"},
    {LLAMA, "\"hidden_size\":-64", RESULT_INVALID, "hidden_size"},
    {LLAMA, "\"hidden_size\":64.5", RESULT_INVALID, "hidden_size"},
    {LLAMA, "\"hidden_size\":\"64\"", RESULT_INVALID, "hidden_size"},
    {LLAMA, "\"hidden_size\":[64]", RESULT_INVALID, "hidden_size"},
    {LLAMA, "\"hidden_size\":1e30", RESULT_INVALID, "hidden_size"},
    {LLAMA, "\"hidden_size\":65537", RESULT_TOO_LARGE, "hidden_size is 65537"},
    {LLAMA, "\"hidden_size\":66", RESULT_INVALID, "no multiple of 4 heads"},
    {LLAMA, "\"intermediate_size\":262145", RESULT_TOO_LARGE, "intermediate_size"},
    {LLAMA, "\"num_hidden_layers\":513", RESULT_TOO_LARGE, "num_hidden_layers"},
    {LLAMA, "\"num_hidden_layers\":0", RESULT_INVALID, "num_hidden_layers"},
    {LLAMA, "\"num_attention_heads\":0", RESULT_INVALID, "num_attention_heads"},
    {LLAMA, "\"num_attention_heads\":4096", RESULT_TOO_LARGE, "num_attention_heads"},
    {LLAMA, "\"num_key_value_heads\":3", RESULT_INVALID, "share 3 key-value heads"},
    {LLAMA, "\"num_key_value_heads\":0", RESULT_INVALID, "num_key_value_heads"},
    {LLAMA, "\"head_dim\":513", RESULT_TOO_LARGE, "head_dim"},
    {LLAMA, "\"head_dim\":15", RESULT_INVALID, "15 of a head's 15"},
    {LLAMA, "\"vocab_size\":0", RESULT_INVALID, "vocab_size"},
    {LLAMA, "\"vocab_size\":1048577", RESULT_TOO_LARGE, "vocab_size"},
    {LLAMA, "\"max_position_embeddings\":0", RESULT_INVALID, "max_position_embeddings"},
    {LLAMA, "\"max_position_embeddings\":1e9", RESULT_TOO_LARGE, "max_position_embeddings"},
    {LLAMA, "\"max_position_embeddings\":\"x\"", RESULT_INVALID, "max_position_embeddings"},
    {LLAMA, "\"rms_norm_eps\":0", RESULT_INVALID, "rms_norm_eps"},
    {LLAMA, "\"rms_norm_eps\":true", RESULT_INVALID, "rms_norm_eps"},
    {LLAMA, "\"tie_word_embeddings\":1", RESULT_INVALID, "tie_word_embeddings"},
    {LLAMA, "\"attention_bias\":2", RESULT_INVALID, "attention_bias"},
    {LLAMA, "\"mlp_bias\":\"no\"", RESULT_INVALID, "mlp_bias"},
    {LLAMA, "\"rms_norm_eps\":NaN", RESULT_INVALID, "rms_norm_eps"},
    {LLAMA, "\"rope_theta\":-Infinity", RESULT_INVALID, "rope_theta"},
    {LLAMA, "\"num_local_experts\":8", RESULT_UNSUPPORTED, "num_local_experts"},
    {LLAMA, "\"partial_rotary_factor\":0.5", RESULT_UNSUPPORTED, "partial_rotary_factor"},
    {LLAMA, "\"hidden_act\":\"gelu\"", RESULT_UNSUPPORTED, "hidden_act \"gelu\""},
    {LLAMA, "\"hidden_act\":[]", RESULT_INVALID, "hidden_act"},
    {LLAMA, "\"rope_theta\":0", RESULT_INVALID, "rope_theta"},
    {LLAMA, "\"rope_theta\":\"1e4\"", RESULT_INVALID, "rope_theta"},
    {LLAMA, "\"rope_scaling\":[]", RESULT_INVALID, "rope_scaling is not an object"},
    {LLAMA, "\"rope_scaling\":{\"type\":\"mrope\",\"factor\":4}", RESULT_UNSUPPORTED,
     "rope_type \"mrope\""},
    {LLAMA, "\"rope_scaling\":{\"rope_type\":\"linear\"}", RESULT_INVALID,
     "rope_scaling.factor is missing"},
    {LLAMA, "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":0}", RESULT_INVALID,
     "rope_scaling.factor"},
    {LLAMA, "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":-1}", RESULT_INVALID,
     "rope_scaling.factor"},
    {LLAMA, "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8}", RESULT_INVALID,
     "low_freq_factor is missing"},
    {LLAMA,
     "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
     "\"high_freq_factor\":4,\"original_max_position_embeddings\":64}",
     RESULT_INVALID, "is not above low_freq_factor"},
    {LLAMA, "\"rope_parameters\":{\"partial_rotary_factor\":0.25}", RESULT_UNSUPPORTED,
     "rope_parameters.partial_rotary_factor"},
    {GEMMA3, "\"hidden_activation\":\"silu\"", RESULT_UNSUPPORTED, "hidden_activation"},
    {GEMMA3, "\"sliding_window\":0", RESULT_INVALID, "sliding_window"},
    {GEMMA3, "\"sliding_window_pattern\":0", RESULT_INVALID, "sliding_window_pattern"},
    {GEMMA3, "\"query_pre_attn_scalar\":0", RESULT_INVALID, "query_pre_attn_scalar"},
    {GEMMA3, "\"attn_logit_softcapping\":0", RESULT_INVALID, "attn_logit_softcapping"},
    {GEMMA3, "\"final_logit_softcapping\":true", RESULT_INVALID, "final_logit_softcapping"},
    {GEMMA3, "\"use_bidirectional_attention\":true", RESULT_UNSUPPORTED, "bidirectional"},
    {GEMMA3, "\"layer_types\":{}", RESULT_INVALID, "layer_types is not an array"},
    {GEMMA3, "\"layer_types\":[\"full_attention\"]", RESULT_INVALID, "1 elements for 7 layers"},
    {GEMMA3, "\"layer_types\":[\"linear_attention\"]", RESULT_UNSUPPORTED, "element 0"},
    {GEMMA3, "\"layer_types\":[7]", RESULT_UNSUPPORTED, "element 0"},
    {GEMMA3, "\"rope_parameters\":{\"rope_theta\":1000}", RESULT_INVALID, "lacks full_attention"},
    {GEMMA3, "\"rope_parameters\":{\"full_attention\":7}", RESULT_INVALID, "full_attention"},
    {GEMMA3, "\"rope_local_base_freq\":-1", RESULT_INVALID, "rope_local_base_freq"},
    {GEMMA2, "\"attn_logit_softcapping\":-1", RESULT_INVALID, "attn_logit_softcapping"},
    {GEMMA2, "\"final_logit_softcapping\":\"x\"", RESULT_INVALID, "final_logit_softcapping"},
    {GEMMA2, "\"attention_bias\":\"x\"", RESULT_INVALID, "attention_bias"},
    {GLM4, "\"attention_bias\":1", RESULT_INVALID, "attention_bias"},
    {GLM4, "\"partial_rotary_factor\":1.5", RESULT_INVALID, "partial_rotary_factor"},
    {GLM4, "\"hidden_act\":\"gelu\"", RESULT_UNSUPPORTED, "hidden_act"},
    {COHERE2, "\"layer_norm_eps\":0", RESULT_INVALID, "layer_norm_eps"},
    {COHERE2, "\"logit_scale\":0", RESULT_INVALID, "logit_scale"},
    {COHERE2, "\"use_qk_norm\":true", RESULT_UNSUPPORTED, "use_qk_norm"},
    {COHERE2, "\"rotary_pct\":0.5", RESULT_UNSUPPORTED, "rotary_pct"},
    {"\"model_type\":\"gemma3\"", "\"text_config\":{\"head_dim\":1000}", RESULT_TOO_LARGE,
     "head_dim"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        struct error_text error;
        enum result result = hf_config_case_read(r->base, r->more, &config, &error);
        if (result != r->result || !strstr(error.text, r->words) ||
            strncmp(error.text, "config.json: ", 13) != 0)
            fail_msg("%s: %s \"%s\", not %s with \"%s\"", r->more, result_name(result), error.text,
                     result_name(r->result), r->words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_scaled_ropes), cmocka_unit_test(test_gemma3),
        cmocka_unit_test(test_gemma2),       cmocka_unit_test(test_crossed_layers),
        cmocka_unit_test(test_other_wholes), cmocka_unit_test(test_biases),
        cmocka_unit_test(test_glm4),         cmocka_unit_test(test_cohere2),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_tower_wholes),
        cmocka_unit_test(test_minicpm),      cmocka_unit_test(test_granitemoe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
