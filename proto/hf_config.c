/*
 * Configs are saved without the members that have their class's default value, so an absent number
 * still has a value, which follows from the class's name. Source: the configuration classes of
 * Hugging Face transformers.
 */
#include "proto/hf_config.h"

#include <string.h>

#define CONTEXT_KEY      "max_position_embeddings"
#define DECODER_KEY      "max_target_positions" /* its name in an encoder-decoder */
#define MODEL_TYPE_BYTES 64u

static const struct {
    const char *model_type;
    uint32_t context_tokens;
} defaults[] = {
    {"gemma2", 8192},
    {"glm4", 131072},
    {"glm_ocr", 131072},
    {"glm_ocr_text", 131072},
    {"ernie4_5", 131072},
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
    {"deepseek_v2", 2048},
    {"deepseek_v3", 4096},
    {"kimi_k2", 4096},
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
    {"qwen2_5_omni_thinker", 32768},
    {"qwen2_5_omni_text", 32768},
    {"paddleocr_vl", 131072},
    {"paddleocr_vl_text", 131072},
    {"smollm3", 32768},
    {"seed_oss", 524288},
    {"gemma", 8192},
    {"granite", 2048},
    {"exaone4", 2048},
    {"olmo2", 2048},
    {"olmo3", 2048},
    {"arcee", 4096},
    {"bert", 512},
    {"modernbert", 8192},
    {"roberta", 512},
    {"xlm-roberta", 512},
    {"camembert", 512},
    {"starcoder2", 4096},
    {"stablelm", 4096},
    {"phi", 2048},
    {"granitemoe", 2048},
    {"minicpm", 2048},
    {"apertus", 65536},
    {"falcon_h1", 8192},
    {"bamba", 262144},
    {"granitemoehybrid", 2048},
    {"nemotron_h", 4096},
    {"whisper", 448},
    {"mllama", 131072},
    {"mamba2", 1048576}, /* no class default: state has no length; this is llama.cpp's number */
};

struct json_value hf_config_main(struct json_value config)
{
    struct json_value thinker = json_value_member(config, "thinker_config");
    return json_value_type(thinker) == JSON_OBJECT ? thinker : config;
}

struct json_value hf_config_text(struct json_value config)
{
    config = hf_config_main(config);
    static const char *const names[] = {"text_config", "llm_config", "language_config"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct json_value text = json_value_member(config, names[i]);
        if (json_value_type(text) == JSON_OBJECT)
            return text;
    }
    return config;
}

/* By the model_type of the object. */
static bool find_default(struct json_value object, uint32_t *tokens)
{
    char model_type[MODEL_TYPE_BYTES];
    if (json_value_string(json_value_member(object, "model_type"), model_type, sizeof model_type) !=
        RESULT_OK)
        return false;
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++)
        if (strcmp(defaults[i].model_type, model_type) == 0) {
            *tokens = defaults[i].context_tokens;
            return true;
        }
    return false;
}

#define BERT_TYPES 2u
static const char *const encoder_types[] = {"bert", "modernbert", "roberta", "xlm-roberta",
                                            "camembert"};
#define ENCODER_TYPES (sizeof encoder_types / sizeof encoder_types[0])

static size_t encoder_find(const char *model_type)
{
    size_t at = 0;
    while (at < ENCODER_TYPES && strcmp(encoder_types[at], model_type) != 0)
        at++;
    return at;
}

bool hf_config_is_encoder(const char *model_type)
{
    return encoder_find(model_type) < ENCODER_TYPES;
}

bool hf_config_classifies(struct json_value config)
{
    static const char ending[] = "ForSequenceClassification";
    char name[MODEL_TYPE_BYTES];
    struct json_value class;
    struct json_value type = json_value_member(config, "model_type");
    if (json_value_string(type, name, sizeof name) != RESULT_OK || !hf_config_is_encoder(name))
        return false;
    struct json_value list = json_value_member(config, "architectures");
    if (json_value_type(list) != JSON_ARRAY)
        return false;
    struct json_reader at = json_value_elements(list);
    if (!json_value_next(&at, &class) || json_value_string(class, name, sizeof name) != RESULT_OK)
        return false;
    size_t length = strlen(name), tail = strlen(ending);
    return length >= tail && strcmp(name + length - tail, ending) == 0;
}

/* Positions of an encoder's table that no token has: none of BERT's, those up to the padding token's
 * of RoBERTa. -1: no encoder of these. */
static int64_t unused_positions(struct json_value object)
{
    char model_type[MODEL_TYPE_BYTES];
    uint32_t padding = 1;
    if (json_value_string(json_value_member(object, "model_type"), model_type, sizeof model_type) !=
        RESULT_OK)
        return -1;
    (void)json_value_u32(json_value_member(object, "pad_token_id"), &padding);
    size_t type = encoder_find(model_type);
    if (type == ENCODER_TYPES)
        return -1;
    return type < BERT_TYPES ? 0 : 1 + (int64_t)padding;
}

static enum result context_read(struct json_value config, uint32_t *tokens,
                                struct error_text *error)
{
    uint32_t stated = 0;
    struct json_value text = hf_config_text(config);
    enum result result = json_value_u32(json_value_member(text, CONTEXT_KEY), &stated);
    if (result == RESULT_NOT_FOUND)
        result = json_value_u32(json_value_member(text, DECODER_KEY), &stated);
    if (result == RESULT_OK && stated > 0) {
        *tokens = stated;
        return RESULT_OK;
    }
    if (result != RESULT_NOT_FOUND)
        return error_set(error, RESULT_INVALID, "key " CONTEXT_KEY " is no 32-bit count above 0");
    if (find_default(hf_config_main(config), tokens) ||
        find_default(hf_config_text(config), tokens))
        return RESULT_OK;
    char model_type[MODEL_TYPE_BYTES] = "";
    (void)json_value_string(json_value_member(config, "model_type"), model_type, sizeof model_type);
    return error_set(error, RESULT_INVALID,
                     "key " CONTEXT_KEY " is missing, and model_type \"%s\" is not a supported one "
                     "with a default",
                     model_type);
}

enum result hf_config_context(struct json_value config, uint32_t *tokens, struct error_text *error)
{
    enum result result = context_read(config, tokens, error);
    int64_t unused = unused_positions(config);
    if (result != RESULT_OK || unused < 0)
        return result;
    if (unused >= *tokens)
        return error_set(error, RESULT_INVALID, "key pad_token_id leaves no position");
    /* The token that ends a request has no position. */
    *tokens = (uint32_t)(*tokens - unused + 1);
    return RESULT_OK;
}
