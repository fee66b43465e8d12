/*
 * A table says what becomes of each option. Options about memory and devices have no effect, since
 * the operator decides those; options that would change the answer and are unknown are refused.
 */
#include "frontend/api/ollama/ollama_fields.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frontend/api/generation/request_fields.h"

/* --- options --------------------------------------------------------------------------------- */

enum option_use {
    OPTION_SAME,    /* a field of the same name, or of `field` */
    OPTION_IDLE,    /* checked to be a number or a boolean, without effect */
    OPTION_PREDICT, /* max_tokens; below 0: no limit */
    OPTION_LAST,    /* how many tokens penalties look back: 0: none, -1: all */
    OPTION_ONLY     /* only the value `only`, which is what is done; true is 1, false 0 */
};

static const struct {
    const char *name;
    const char *field; /* NULL: the same */
    enum option_use use;
    double only;
} options[] = {
    {"temperature", NULL, OPTION_SAME, 0},
    {"top_k", NULL, OPTION_SAME, 0},
    {"top_p", NULL, OPTION_SAME, 0},
    {"min_p", NULL, OPTION_SAME, 0},
    {"typical_p", NULL, OPTION_SAME, 0},
    {"seed", NULL, OPTION_SAME, 0},
    {"stop", NULL, OPTION_SAME, 0},
    {"presence_penalty", NULL, OPTION_SAME, 0},
    {"frequency_penalty", NULL, OPTION_SAME, 0},
    {"repeat_penalty", "repetition_penalty", OPTION_SAME, 0},
    {"mirostat", NULL, OPTION_SAME, 0},
    {"mirostat_tau", NULL, OPTION_SAME, 0},
    {"mirostat_eta", NULL, OPTION_SAME, 0},
    {"num_predict", "max_tokens", OPTION_PREDICT, 0},
    {"repeat_last_n", NULL, OPTION_LAST, 0},
    {"num_ctx", NULL, OPTION_IDLE, 0},
    {"num_keep", NULL, OPTION_IDLE, 0},
    {"num_batch", NULL, OPTION_IDLE, 0},
    {"num_gpu", NULL, OPTION_IDLE, 0},
    {"main_gpu", NULL, OPTION_IDLE, 0},
    {"num_thread", NULL, OPTION_IDLE, 0},
    {"use_mmap", NULL, OPTION_IDLE, 0},
    {"use_mlock", NULL, OPTION_IDLE, 0},
    {"low_vram", NULL, OPTION_IDLE, 0},
    {"numa", NULL, OPTION_IDLE, 0},
    {"f16_kv", NULL, OPTION_IDLE, 0},
    {"vocab_only", NULL, OPTION_IDLE, 0},
    {"draft_num_predict", NULL, OPTION_IDLE, 0},
    {"penalize_newline", NULL, OPTION_ONLY, 1},
    {"tfs_z", NULL, OPTION_ONLY, 1},
    {"logits_all", NULL, OPTION_ONLY, 0},
    {"embedding_only", NULL, OPTION_ONLY, 0},
};

static enum result option_refuse(const char *name, const char *why, struct api_error *error)
{
    char param[API_PARAM_BYTES];
    snprintf(param, sizeof param, "options.%.64s", name);
    return api_error_invalid(error, param, "%s %s", param, why);
}

static enum result number_set(cJSON *body, const char *name, double value, struct api_error *error)
{
    cJSON_DeleteItemFromObjectCaseSensitive(body, name);
    return cJSON_AddNumberToObject(body, name, value) ? RESULT_OK : api_error_memory(error);
}

static enum result last_set(cJSON *body, const cJSON *option, struct api_error *error)
{
    static const char *const contexts[] = {"repetition_context_size", "presence_context_size",
                                           "frequency_context_size"};
    static const char *const penalties[] = {"repetition_penalty", "presence_penalty",
                                            "frequency_penalty"};
    double last = cJSON_IsNumber(option) ? option->valuedouble : NAN;
    if (!(last >= -1 && last <= LIMIT_CONTEXT_TOKENS && floor(last) == last))
        return option_refuse("repeat_last_n", "must be an integer of at least -1", error);
    for (size_t i = 0; last != -1 && i < 3; i++) {
        enum result result = last == 0 ? number_set(body, penalties[i], i == 0, error)
                                       : number_set(body, contexts[i], last, error);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

static enum result only_check(const cJSON *option, double only, struct api_error *error)
{
    double value = cJSON_IsBool(option)     ? cJSON_IsTrue(option)
                   : cJSON_IsNumber(option) ? option->valuedouble
                                            : NAN;
    char why[API_PARAM_BYTES];
    snprintf(why, sizeof why, "must be %s: others are not supported",
             only == 1 ? "1 or true" : "0 or false");
    return value == only ? RESULT_OK : option_refuse(option->string, why, error);
}

/* Moves an option, already detached, to the body; frees it otherwise. */
static enum result option_apply(cJSON *body, cJSON *option, struct api_error *error)
{
    size_t i = 0;
    enum result result = RESULT_OK;
    while (i < sizeof options / sizeof options[0] && strcmp(options[i].name, option->string) != 0)
        i++;
    if (i == sizeof options / sizeof options[0]) {
        result = option_refuse(option->string, "is not supported", error);
    } else if (cJSON_IsNull(option)) {
        result = RESULT_OK;
    } else if (options[i].use == OPTION_IDLE) {
        if (!cJSON_IsNumber(option) && !cJSON_IsBool(option))
            result = option_refuse(option->string, "must be a number or a boolean", error);
    } else if (options[i].use == OPTION_ONLY) {
        result = only_check(option, options[i].only, error);
    } else if (options[i].use == OPTION_LAST) {
        result = last_set(body, option, error);
    } else if (options[i].use == OPTION_PREDICT && cJSON_IsNumber(option) &&
               option->valuedouble < 0) {
        cJSON_DeleteItemFromObjectCaseSensitive(body, "max_tokens");
    } else {
        const char *field = options[i].field ? options[i].field : options[i].name;
        cJSON_DeleteItemFromObjectCaseSensitive(body, field);
        if (cJSON_AddItemToObject(body, field, option))
            return RESULT_OK;
        result = api_error_memory(error);
    }
    cJSON_Delete(option);
    return result;
}

/* repeat_last_n comes last, because 0 turns off penalties that are given beside it. */
static enum result options_rewrite(cJSON *body, struct api_error *error)
{
    cJSON *map = cJSON_DetachItemFromObjectCaseSensitive(body, "options");
    enum result result = RESULT_OK;
    if (map && !cJSON_IsObject(map) && !cJSON_IsNull(map))
        result = api_error_invalid(error, "options", "options must be an object");
    cJSON *last = cJSON_DetachItemFromObjectCaseSensitive(map, "repeat_last_n");
    while (result == RESULT_OK && map && map->child)
        result = option_apply(body, cJSON_DetachItemViaPointer(map, map->child), error);
    if (result == RESULT_OK && last)
        result = option_apply(body, last, error);
    else
        cJSON_Delete(last);
    cJSON_Delete(map);
    return result;
}

static enum result defaults_add(cJSON *body, const struct checkpoint_sampling *own,
                                struct api_error *error)
{
    const struct {
        const char *name;
        bool known;
        double value;
    } fields[] = {{"temperature", isfinite(own->temperature), 0.8},
                  {"top_p", isfinite(own->top_p), 0.9},
                  {"top_k", own->top_k != UINT32_MAX, 40}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].known || request_fields_member(body, fields[i].name))
            continue;
        enum result result = number_set(body, fields[i].name, fields[i].value, error);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

/* --- format, think --------------------------------------------------------------------------- */

/* "json", or a JSON schema. */
static enum result format_rewrite(cJSON *body, struct api_error *error)
{
    cJSON *format = cJSON_DetachItemFromObjectCaseSensitive(body, "format");
    const char *word = cJSON_GetStringValue(format);
    if (!format || cJSON_IsNull(format) || (word && !word[0])) {
        cJSON_Delete(format);
        return RESULT_OK;
    }
    cJSON *form = cJSON_CreateObject();
    if (word && strcmp(word, "json") == 0) {
        cJSON_AddStringToObject(form, "type", "json_object");
        cJSON_Delete(format);
    } else if (cJSON_IsObject(format)) {
        cJSON_AddStringToObject(form, "type", "json_schema");
        cJSON *schema = cJSON_AddObjectToObject(form, "json_schema");
        cJSON_AddStringToObject(schema, "name", "format");
        if (!cJSON_AddItemToObject(schema, "schema", format))
            cJSON_Delete(format);
    } else {
        cJSON_Delete(format);
        cJSON_Delete(form);
        return api_error_invalid(error, "format", "format must be \"json\" or a JSON schema");
    }
    if (cJSON_AddItemToObject(body, "response_format", form))
        return RESULT_OK;
    cJSON_Delete(form);
    return api_error_memory(error);
}

/* true, false, or how much: "low", "medium", "high". */
static enum result think_rewrite(cJSON *body, struct api_error *error)
{
    cJSON *think = cJSON_DetachItemFromObjectCaseSensitive(body, "think");
    const char *word = cJSON_GetStringValue(think);
    bool is_level = word && (strcmp(word, "low") == 0 || strcmp(word, "medium") == 0 ||
                             strcmp(word, "high") == 0 || strcmp(word, "max") == 0);
    enum result result = RESULT_OK;
    if (cJSON_IsBool(think)) {
        if (!cJSON_AddBoolToObject(body, "enable_thinking", cJSON_IsTrue(think)))
            result = api_error_memory(error);
    } else if (is_level) {
        if (!cJSON_AddBoolToObject(body, "enable_thinking", true) ||
            !cJSON_AddStringToObject(body, "reasoning_effort", word))
            result = api_error_memory(error);
    } else if (think && !cJSON_IsNull(think)) {
        result = api_error_invalid(error, "think",
                                   "think must be true, false, \"low\", \"medium\" or \"high\"");
    }
    cJSON_Delete(think);
    return result;
}

/* --- the whole ------------------------------------------------------------------------------- */

/* Fields that are checked and then have no effect: nothing is cut off a prompt that is too long.
 * keep_alive was read before. */
static enum result idle_check(cJSON *body, struct api_error *error)
{
    bool ignored;
    enum result result = request_fields_read_bool(body, "truncate", "truncate", &ignored, error);
    if (result == RESULT_OK)
        result = request_fields_read_bool(body, "shift", "shift", &ignored, error);
    if (result != RESULT_OK)
        return result;
    static const char *const names[] = {"keep_alive", "truncate", "shift"};
    for (size_t i = 0; i < 3; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(body, names[i]);
    static const char *const refused[] = {"_debug_render_only", NULL};
    return request_fields_refuse(body, refused, error);
}

/* Answers are streamed unless the client says otherwise. */
static enum result stream_default(cJSON *body, struct api_error *error)
{
    if (request_fields_member(body, "stream"))
        return RESULT_OK;
    cJSON_DeleteItemFromObjectCaseSensitive(body, "stream");
    return cJSON_AddTrueToObject(body, "stream") ? RESULT_OK : api_error_memory(error);
}

void ollama_fields_strip_tag(cJSON *body)
{
    static const char tag[] = ":latest";
    cJSON *model = cJSON_GetObjectItemCaseSensitive(body, "model");
    size_t length = cJSON_IsString(model) ? strlen(model->valuestring) : 0;
    if (length > strlen(tag) && strcmp(model->valuestring + length - strlen(tag), tag) == 0)
        model->valuestring[length - strlen(tag)] = '\0';
}

enum result ollama_fields_rewrite(const struct parse_context *context, cJSON *body,
                                  struct api_error *error)
{
    ollama_fields_strip_tag(body);
    bool present;
    int64_t answers;
    enum result result = idle_check(body, error);
    if (result == RESULT_OK) /* a reply has one answer */
        result = request_fields_read_integer(body, "n", 1, 1, &present, &answers, error);
    if (result == RESULT_OK)
        result = options_rewrite(body, error);
    if (result == RESULT_OK)
        result = defaults_add(body, &context->assets->sampling, error);
    if (result == RESULT_OK)
        result = format_rewrite(body, error);
    if (result == RESULT_OK)
        result = think_rewrite(body, error);
    return result == RESULT_OK ? stream_default(body, error) : result;
}
