/*
 * Reads the members by a table: those that only training reads, those that must be off, and the few
 * that set the scale.
 *
 * PEFT takes the names in alpha_pattern as regular expressions that match the end of a module's name
 * after a dot. Names of plain characters, in which a dot stands for a dot, cover what is published;
 * others are refused.
 */
#include "worker/model/lora/lora_config.h"

#include <math.h>
#include <string.h>

#include "proto/limits.h"

#define FILE_NAME  "adapter_config.json"
#define NAME_BYTES 256u

/* Members without influence on the result of a trained adapter, or read elsewhere: where its pairs
 * are follows from its tensors, and so does the rank. */
static const char *const PLAIN[] = {
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "lora_alpha",
    "lora_dropout",
    "lora_ga_config",
    "loftq_config",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "use_rslora",
    "bias",
};

/* Ways of initialization that leave the base model as it is. */
static const char *const INITIALIZATIONS[] = {"gaussian", "eva", "orthogonal", "lora_ga", "true"};

static bool is_listed(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

static bool is_off(struct json_value value)
{
    bool on = true;
    float number = 1;
    switch (json_value_type(value)) {
    case JSON_ABSENT: return true;
    case JSON_BOOL: return json_value_bool(value, &on) == RESULT_OK && !on;
    case JSON_NUMBER: return json_value_f32(value, &number) == RESULT_OK && number == 0;
    default: {
        const char *end = value.bytes + value.byte_count - 1;
        const char *at = value.bytes + 1;
        while (at < end && strchr(" \t\r\n", *at))
            at++;
        return at == end; /* "", [] or {} */
    }
    }
}

/* Members that PEFT's class has beside the plain ones, and members that it does not have. */
static enum result check_members(struct json_value root, struct error_text *error)
{
    struct json_reader reader = json_reader_open(root.bytes, root.byte_count);
    char name[NAME_BYTES];
    size_t name_bytes;
    json_reader_enter(&reader, '{');
    while (json_reader_next_member(&reader, name, sizeof name - 1, &name_bytes)) {
        struct json_value value = {0};
        name[name_bytes] = '\0';
        value.bytes = json_reader_skip(&reader, &value.byte_count);
        if (value.byte_count == 4 && memcmp(value.bytes, "null", 4) == 0)
            continue;
        if (!is_listed(name, PLAIN, sizeof PLAIN / sizeof PLAIN[0]) && !is_off(value))
            return error_set(error, RESULT_UNSUPPORTED, FILE_NAME ": %.100s is not supported",
                             name);
    }
    if (reader.failed)
        return error_set(error, RESULT_INVALID,
                         FILE_NAME ": a member's name is longer than %u bytes", NAME_BYTES - 1);
    return RESULT_OK;
}

/* A text member that must be one of the list where it is given. */
static enum result check_text(struct json_value root, const char *member, const char *const *list,
                              size_t count, struct error_text *error)
{
    char text[NAME_BYTES] = "";
    struct json_value value = json_value_member(root, member);
    if (json_value_type(value) == JSON_BOOL || json_value_type(value) == JSON_ABSENT)
        return RESULT_OK;
    if (json_value_string(value, text, sizeof text) == RESULT_OK && is_listed(text, list, count))
        return RESULT_OK;
    return error_set(error, RESULT_UNSUPPORTED, FILE_NAME ": %s %.60s is not supported", member,
                     text[0] ? text : "of this type");
}

static enum result check_kind(struct json_value root, struct error_text *error)
{
    static const char *const lora[] = {"LORA"};
    static const char *const none[] = {"none"};
    if (json_value_type(json_value_member(root, "peft_type")) != JSON_STRING)
        return error_set(error, RESULT_INVALID, FILE_NAME ": peft_type is missing");
    enum result result = check_text(root, "peft_type", lora, 1, error);
    if (result == RESULT_OK)
        result = check_text(root, "bias", none, 1, error);
    if (result == RESULT_OK)
        result = check_text(root, "init_lora_weights", INITIALIZATIONS,
                            sizeof INITIALIZATIONS / sizeof INITIALIZATIONS[0], error);
    return result;
}

static enum result read_scale(struct json_value root, struct lora_config *config,
                              struct error_text *error)
{
    if (json_value_f32(json_value_member(root, "lora_alpha"), &config->alpha) != RESULT_OK)
        return error_set(error, RESULT_INVALID, FILE_NAME ": lora_alpha must be a finite number");
    if (json_value_bool(json_value_member(root, "use_rslora"), &config->root_scale) ==
        RESULT_INVALID)
        return error_set(error, RESULT_INVALID, FILE_NAME ": use_rslora must be true or false");
    uint32_t rank = 1;
    if (json_value_u32(json_value_member(root, "r"), &rank) == RESULT_INVALID || rank < 1 ||
        rank > LIMIT_ADAPTER_RANK)
        return error_set(error, RESULT_UNSUPPORTED, FILE_NAME ": r must be 1 to %u",
                         LIMIT_ADAPTER_RANK);
    config->alpha_pattern = json_value_member(root, "alpha_pattern");
    enum json_type type = json_value_type(config->alpha_pattern);
    if (type != JSON_OBJECT && type != JSON_ABSENT)
        return error_set(error, RESULT_INVALID, FILE_NAME ": alpha_pattern must be an object");
    return RESULT_OK;
}

enum result lora_config_read(const void *json, size_t json_bytes, struct lora_config *config,
                             struct error_text *error)
{
    struct json_value root;
    struct error_text reason;
    *config = (struct lora_config){0};
    enum result result = json_value_open(json, json_bytes, LIMIT_CONFIG_BYTES, &root, &reason);
    if (result != RESULT_OK)
        return error_set(error, result, FILE_NAME ": %.180s", reason.text);
    if (json_value_type(root) != JSON_OBJECT)
        return error_set(error, RESULT_INVALID, FILE_NAME ": it is not an object");
    result = check_kind(root, error);
    if (result == RESULT_OK)
        result = check_members(root, error);
    if (result == RESULT_OK)
        result = read_scale(root, config, error);
    return result;
}

/* Whether the module's name is `pattern` or ends with it after a dot. */
static bool ends_with(const char *module, const char *pattern)
{
    size_t all = strlen(module), end = strlen(pattern);
    if (end > all || strcmp(module + all - end, pattern) != 0)
        return false;
    return end == all || module[all - end - 1] == '.';
}

/* The first name in alpha_pattern that matches counts. */
static enum result find_alpha(const struct lora_config *config, const char *module, float *alpha,
                              struct error_text *error)
{
    struct json_reader reader =
        json_reader_open(config->alpha_pattern.bytes, config->alpha_pattern.byte_count);
    char name[NAME_BYTES];
    size_t name_bytes;
    if (config->alpha_pattern.byte_count == 0)
        return RESULT_OK;
    json_reader_enter(&reader, '{');
    while (json_reader_next_member(&reader, name, sizeof name - 1, &name_bytes)) {
        struct json_value value = {0};
        name[name_bytes] = '\0';
        value.bytes = json_reader_skip(&reader, &value.byte_count);
        const char *pattern = name[0] == '^' ? name + 1 : name;
        if (strpbrk(pattern, "^$*+?()[]{}|\\"))
            return error_set(error, RESULT_UNSUPPORTED,
                             FILE_NAME ": alpha_pattern '%.100s' is a regular expression", name);
        bool fits = pattern == name ? ends_with(module, name) : strcmp(module, pattern) == 0;
        if (!fits)
            continue;
        if (json_value_f32(value, alpha) != RESULT_OK)
            return error_set(error, RESULT_INVALID,
                             FILE_NAME ": alpha_pattern '%.100s' must be a finite number", name);
        return RESULT_OK;
    }
    if (reader.failed)
        return error_set(error, RESULT_INVALID,
                         FILE_NAME ": a name in alpha_pattern is longer than %u bytes",
                         NAME_BYTES - 1);
    return RESULT_OK;
}

enum result lora_config_scale(const struct lora_config *config, const char *module, unsigned rank,
                              float *scale, struct error_text *error)
{
    float alpha = config->alpha;
    enum result result = find_alpha(config, module, &alpha, error);
    if (result == RESULT_OK)
        *scale = config->root_scale ? alpha / sqrtf((float)rank) : alpha / (float)rank;
    return result;
}
