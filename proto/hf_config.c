/*
 * Configs are saved without the members that have their class's default value, so an absent number
 * still has a value, which follows from the class's name. Source: the configuration classes of
 * Hugging Face transformers.
 */
#include "proto/hf_config.h"

#include <string.h>

#define CONTEXT_KEY      "max_position_embeddings"
#define MODEL_TYPE_BYTES 64u

static const struct {
    const char *model_type;
    uint32_t context_tokens;
} defaults[] = {
    {"gemma2", 8192},        {"glm4", 131072},
    {"cohere2", 8192},       {"llama", 2048},
    {"mistral", 131072},     {"ministral3", 262144},
    {"phi3", 4096},          {"qwen2", 32768},
    {"qwen3", 32768},        {"gemma3", 131072},
    {"gemma3_text", 131072}, {"lfm2", 128000},
    {"qwen3_5", 32768},      {"qwen3_5_text", 32768},
    {"gemma3n", 32768},      {"gemma3n_text", 32768},
    {"gemma4", 131072},      {"gemma4_text", 131072},
    {"qwen3_5_moe", 32768},  {"qwen3_5_moe_text", 32768},
    {"qwen3_vl", 128000},    {"qwen3_vl_text", 128000},
    {"qwen2_vl", 32768},     {"qwen2_vl_text", 32768},
    {"qwen2_5_vl", 32768},   {"qwen2_5_vl_text", 32768},
    {"smollm3", 32768},      {"seed_oss", 524288},
    {"gemma", 8192},         {"granite", 2048},
    {"exaone4", 2048},       {"olmo2", 2048},
    {"olmo3", 2048},         {"arcee", 4096},
    {"starcoder2", 4096},    {"stablelm", 4096},
    {"phi", 2048},           {"granitemoe", 2048},
    {"minicpm", 2048},       {"apertus", 65536},
};

struct json_value hf_config_text(struct json_value config)
{
    static const char *const names[] = {"text_config", "llm_config"};
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

enum result hf_config_context(struct json_value config, uint32_t *tokens, struct error_text *error)
{
    uint32_t stated = 0;
    enum result result =
        json_value_u32(json_value_member(hf_config_text(config), CONTEXT_KEY), &stated);
    if (result == RESULT_OK && stated > 0) {
        *tokens = stated;
        return RESULT_OK;
    }
    if (result != RESULT_NOT_FOUND)
        return error_set(error, RESULT_INVALID, "key " CONTEXT_KEY " is no 32-bit count above 0");
    if (find_default(config, tokens) || find_default(hf_config_text(config), tokens))
        return RESULT_OK;
    char model_type[MODEL_TYPE_BYTES] = "";
    (void)json_value_string(json_value_member(config, "model_type"), model_type, sizeof model_type);
    return error_set(error, RESULT_INVALID,
                     "key " CONTEXT_KEY " is missing, and model_type \"%s\" is not a supported one "
                     "with a default",
                     model_type);
}
