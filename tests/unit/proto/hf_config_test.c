/*
 * The context of a Hugging Face config: stated, of the class's default, or refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/hf_config.h"

static enum result context_of(const char *json, uint32_t *tokens, struct error_text *error)
{
    struct json_value config;
    assert_int_equal(json_value_open(json, strlen(json), 4096, &config, error), RESULT_OK);
    return hf_config_context(config, tokens, error);
}

static void assert_context(const char *json, uint32_t expected)
{
    uint32_t tokens = 0;
    struct error_text error = {""};
    if (context_of(json, &tokens, &error) != RESULT_OK)
        fail_msg("%s: %s", json, error.text);
    assert_int_equal(tokens, expected);
}

static void assert_refused(const char *json, const char *words)
{
    uint32_t tokens = 77;
    struct error_text error = {""};
    assert_int_equal(context_of(json, &tokens, &error), RESULT_INVALID);
    assert_string_equal(error.text, words);
    assert_int_equal(tokens, 77);
}

static void a_stated_context_counts(void **state)
{
    (void)state;
    assert_context("{\"max_position_embeddings\":1}", 1);
    assert_context("{\"max_position_embeddings\":4294967295,\"model_type\":\"llama\"}", 4294967295);
    assert_context(
        "{\"text_config\":{\"max_position_embeddings\":3},\"max_position_embeddings\":5}", 3);
    assert_context("{\"text_config\":null,\"max_position_embeddings\":5}", 5);
    assert_context("{\"max_target_positions\":7,\"model_type\":\"whisper\"}", 7);
}

static void other_values_are_refused(void **state)
{
    (void)state;
    const char *const values[] = {"0", "-1", "4294967296", "1.5", "\"8\"", "[8]", "true"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char json[128];
        snprintf(json, sizeof json, "{\"max_position_embeddings\":%s,\"model_type\":\"llama\"}",
                 values[i]);
        assert_refused(json, "key max_position_embeddings is no 32-bit count above 0");
    }
}

/* The defaults of the configuration classes of Hugging Face transformers. */
static const struct {
    const char *model_type;
    uint32_t tokens;
} defaults[] = {
    {"gemma2", 8192},
    {"glm4", 131072},
    {"ernie4_5_moe", 131072},
    {"ernie4_5_vl_moe", 131072},
    {"ernie4_5_vl_moe_text", 131072},
    {"ernie4_5_moe_vl", 131072},
    {"glm4_moe", 131072},
    {"glm4_moe_lite", 202752},
    {"minimax_m2", 196608},
    {"hunyuan_v1_dense", 2048},
    {"hunyuan_v1_moe", 2048},
    {"hunyuan_vl", 2048},
    {"hunyuan_vl_text", 2048},
    {"lfm2_moe", 128000},
    {"falcon_h1", 8192},
    {"bamba", 262144},
    {"granitemoehybrid", 2048},
    {"nemotron_h", 4096},
    {"whisper", 448},
    {"mllama", 131072},
    {"mamba2", 1048576},
    {"deepseek_v2", 2048},
    {"deepseek_v3", 4096},
    {"kimi_k2", 4096},
    {"glm_ocr", 131072},
    {"paddleocr_vl", 131072},
    {"paddleocr_vl_text", 131072},
    {"glm_ocr_text", 131072},
    {"ernie4_5", 131072},
    {"glm4v", 32768},
    {"glm4v_text", 32768},
    {"glm4v_moe", 65536},
    {"glm4v_moe_text", 65536},
    {"cohere2", 8192},
    {"llama", 2048},
    {"mistral", 131072},
    {"ministral3", 262144},
    {"phi3", 4096},
    {"qwen2", 32768},
    {"qwen3", 32768},
    {"gemma3", 131072},
    {"gemma3_text", 131072},
    {"lfm2", 128000},
    {"qwen3_5", 32768},
    {"qwen3_5_text", 32768},
    {"gemma3n", 32768},
    {"gemma3n_text", 32768},
    {"gemma4", 131072},
    {"gemma4_text", 131072},
    {"qwen3_5_moe", 32768},
    {"qwen3_5_moe_text", 32768},
    {"qwen3_vl", 128000},
    {"qwen3_vl_text", 128000},
    {"qwen2_vl", 32768},
    {"qwen2_vl_text", 32768},
    {"qwen2_5_vl", 32768},
    {"qwen2_5_vl_text", 32768},
    {"smollm3", 32768},
    {"seed_oss", 524288},
    {"gemma", 8192},
    {"granite", 2048},
    {"exaone4", 2048},
    {"olmo2", 2048},
    {"olmo3", 2048},
    {"arcee", 4096},
    {"starcoder2", 4096},
    {"stablelm", 4096},
    {"phi", 2048},
    {"granitemoe", 2048},
    {"minicpm", 2048},
    {"apertus", 65536},
};

static void an_absent_context_is_the_default_of_the_class(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
        char json[160];
        snprintf(json, sizeof json, "{\"model_type\":\"%s\"}", defaults[i].model_type);
        assert_context(json, defaults[i].tokens);
        snprintf(json, sizeof json,
                 "{\"model_type\":\"other\",\"text_config\":{\"model_type\":\"%s\"}}",
                 defaults[i].model_type);
        assert_context(json, defaults[i].tokens);
    }
    assert_context("{\"model_type\":\"other\",\"language_config\":{\"model_type\":\"llama\"}}",
                   2048);
    /* The whole config's class comes first. */
    assert_context("{\"model_type\":\"phi3\",\"text_config\":{\"model_type\":\"llama\"}}", 4096);
}

static void an_unknown_class_needs_a_context(void **state)
{
    (void)state;
#define MISSING                                                                                    \
    "key max_position_embeddings is missing, and model_type \"%s\" is not a supported one with a " \
    "default"
    char words[192], llam[192];
    snprintf(words, sizeof words, MISSING, "");
    snprintf(llam, sizeof llam, MISSING, "llam");
    assert_refused("{}", words);
    assert_refused("{\"model_type\":\"llam\"}", llam);
    assert_refused("{\"model_type\":\"llam\",\"text_config\":{\"model_type\":\"lla\"}}", llam);
    assert_refused("{\"model_type\":3}", words);
    assert_refused("{\"model_type\":\"a name that is far longer than any of the names that are in "
                   "the table\"}",
                   words);
}

/* BERT has a position for every token, RoBERTa for those after the padding token's. A request's last
 * token needs none. */
static void encoders_have_the_positions_that_tokens_have(void **state)
{
    (void)state;
    static const char *const types[] = {"roberta", "xlm-roberta", "camembert"};
    char json[160];
    assert_context("{\"model_type\":\"bert\"}", 513);
    assert_context("{\"model_type\":\"bert\",\"pad_token_id\":7}", 513);
    assert_context("{\"model_type\":\"modernbert\",\"pad_token_id\":7}", 8193);
    assert_context("{\"model_type\":\"bert\",\"max_position_embeddings\":1}", 2);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        snprintf(json, sizeof json, "{\"model_type\":\"%s\"}", types[i]);
        assert_context(json, 512 - 2 + 1);
        snprintf(json, sizeof json,
                 "{\"model_type\":\"%s\",\"pad_token_id\":5,\"max_position_embeddings\":514}",
                 types[i]);
        assert_context(json, 514 - 6 + 1);
        snprintf(json, sizeof json, "{\"model_type\":\"%s\",\"max_position_embeddings\":3}",
                 types[i]);
        assert_context(json, 2);
        for (int tokens = 1; tokens <= 2; tokens++) {
            struct error_text error = {""};
            uint32_t context;
            snprintf(json, sizeof json, "{\"model_type\":\"%s\",\"max_position_embeddings\":%d}",
                     types[i], tokens);
            assert_int_equal(context_of(json, &context, &error), RESULT_INVALID);
            assert_string_equal(error.text, "key pad_token_id leaves no position");
        }
    }
}

/* Of a class that listens and speaks. */
static void a_thinker_is_the_main_config(void **state)
{
    (void)state;
    assert_context(
        "{\"model_type\":\"qwen2_5_omni\",\"thinker_config\":{\"model_type\":\"qwen2_5_omni_"
        "thinker\","
        "\"text_config\":{\"max_position_embeddings\":77}},\"max_position_embeddings\":5}",
        77);
    assert_context("{\"model_type\":\"qwen2_5_omni\",\"thinker_config\":{\"model_type\":\"qwen2_5_"
                   "omni_thinker\","
                   "\"text_config\":{\"vocab_size\":5}}}",
                   32768);
    assert_context("{\"thinker_config\":3,\"max_position_embeddings\":5}", 5);
}

static void classifiers_are_encoders_of_that_architecture(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        bool classifies;
    } cases[] = {
        {"{\"model_type\":\"bert\",\"architectures\":[\"BertForSequenceClassification\"]}", true},
        {"{\"model_type\":\"modernbert\",\"architectures\":["
         "\"ModernBertForSequenceClassification\"]}",
         true},
        {"{\"model_type\":\"camembert\",\"architectures\":[\"ForSequenceClassification\",1]}",
         true},
        {"{\"model_type\":\"bert\",\"architectures\":[\"orSequenceClassification\"]}", false},
        {"{\"model_type\":\"bert\",\"architectures\":[\"BertForSequenceClassificationX\"]}", false},
        {"{\"model_type\":\"bert\",\"architectures\":[\"BertModel\","
         "\"BertForSequenceClassification\"]}",
         false},
        {"{\"model_type\":\"bert\",\"architectures\":\"BertForSequenceClassification\"}", false},
        {"{\"model_type\":\"bert\",\"architectures\":[]}", false},
        {"{\"model_type\":\"bert\",\"architectures\":[7]}", false},
        {"{\"model_type\":\"bert\"}", false},
        {"{\"model_type\":\"llama\",\"architectures\":[\"LlamaForSequenceClassification\"]}",
         false},
        {"{\"architectures\":[\"BertForSequenceClassification\"]}", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_value config;
        struct error_text error;
        assert_int_equal(
            json_value_open(cases[i].json, strlen(cases[i].json), 4096, &config, &error),
            RESULT_OK);
        if (hf_config_classifies(config) != cases[i].classifies)
            fail_msg("%s", cases[i].json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stated_context_counts),
        cmocka_unit_test(other_values_are_refused),
        cmocka_unit_test(an_absent_context_is_the_default_of_the_class),
        cmocka_unit_test(an_unknown_class_needs_a_context),
        cmocka_unit_test(encoders_have_the_positions_that_tokens_have),
        cmocka_unit_test(a_thinker_is_the_main_config),
        cmocka_unit_test(classifiers_are_encoders_of_that_architecture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
