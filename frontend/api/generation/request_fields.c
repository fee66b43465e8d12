/*
 * Numbers are read by one table (name, range, place of the checkpoint's default, place of the
 * value). Other fields have a reader each; callers run them in order until one fails.
 */
#include "frontend/api/generation/request_fields.h"

#include <cjson/cJSON.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/assets/adapter_set.h"
#include "frontend/base/json_text.h"

const cJSON *request_fields_member(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return item && !cJSON_IsNull(item) ? item : NULL;
}

static enum result body_check(const cJSON *body, struct api_error *error)
{
    const char *twice = json_text_find_duplicate(body);
    if (twice)
        return api_error_invalid(error, "", "the body has two members '%.64s' in one object",
                                 twice);
    if (!cJSON_IsObject(body))
        return api_error_invalid(error, "", "the body must be a JSON object");
    return RESULT_OK;
}

enum result request_fields_read_body(const char *json, size_t json_bytes, cJSON **body,
                                     struct api_error *error)
{
    struct json_problem problem;
    *body = NULL;
    if (!json_text_check(json, json_bytes, LIMIT_BODY_DEPTH, &problem))
        return api_error_invalid(error, "", "the body is not valid JSON: %s (byte %zu)",
                                 problem.reason, problem.offset);
    *body = cJSON_ParseWithLength(json, json_bytes);
    if (!*body)
        return api_error_invalid(error, "", "the body is not valid JSON");
    enum result result = body_check(*body, error);
    if (result != RESULT_OK) {
        cJSON_Delete(*body);
        *body = NULL;
    }
    return result;
}

/* --- numbers --------------------------------------------------------------------------------- */

#define CHECKPOINT_NONE SIZE_MAX

static const struct float_field {
    const char *name;
    double least;
    double most;
    size_t offset;            /* in struct sampling_params */
    size_t checkpoint_offset; /* in struct checkpoint_sampling; CHECKPOINT_NONE: it has none */
    float api_default;
} float_fields[] = {
#define PARAM(field)      offsetof(struct sampling_params, field)
#define CHECKPOINT(field) offsetof(struct checkpoint_sampling, field)
    {"temperature", 0, 2, PARAM(temperature), CHECKPOINT(temperature), 1},
    {"top_p", 0, 1, PARAM(top_p), CHECKPOINT(top_p), 1},
    {"min_p", 0, 1, PARAM(min_p), CHECKPOINT(min_p), 0},
    {"repetition_penalty", 0, 10, PARAM(repetition_penalty), CHECKPOINT(repetition_penalty), 1},
    {"presence_penalty", -2, 2, PARAM(presence_penalty), CHECKPOINT_NONE, 0},
    {"frequency_penalty", -2, 2, PARAM(frequency_penalty), CHECKPOINT_NONE, 0},
    {"typical_p", 0, 1, PARAM(typical_p), CHECKPOINT_NONE, 1},
    {"top_n_sigma", 0, 100, PARAM(top_n_sigma), CHECKPOINT_NONE, 0},
#undef PARAM
#undef CHECKPOINT
};

static enum result float_field_read(const cJSON *body, const struct float_field *field,
                                    const struct checkpoint_sampling *checkpoint,
                                    struct sampling_params *sampling, struct api_error *error)
{
    float value = field->api_default;
    if (field->checkpoint_offset != CHECKPOINT_NONE) {
        float own;
        memcpy(&own, (const char *)checkpoint + field->checkpoint_offset, sizeof own);
        if (isfinite(own))
            value = own;
    }
    const cJSON *item = request_fields_member(body, field->name);
    if (item) {
        if (!cJSON_IsNumber(item))
            return api_error_invalid(error, field->name, "%s must be a number", field->name);
        if (!(item->valuedouble >= field->least && item->valuedouble <= field->most))
            return api_error_invalid(error, field->name, "%s must be between %g and %g",
                                     field->name, field->least, field->most);
        value = (float)item->valuedouble;
    }
    memcpy((char *)sampling + field->offset, &value, sizeof value);
    return RESULT_OK;
}

/* An integer member; *present: whether it exists. Exact for magnitudes below 2^53. */
enum result request_fields_read_integer(const cJSON *body, const char *name, double least,
                                        double most, bool *present, int64_t *value,
                                        struct api_error *error)
{
    const cJSON *item = request_fields_member(body, name);
    *present = item != NULL;
    if (!item)
        return RESULT_OK;
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble) ||
        floor(item->valuedouble) != item->valuedouble)
        return api_error_invalid(error, name, "%s must be an integer", name);
    if (item->valuedouble < least || item->valuedouble > most)
        return api_error_invalid(error, name, "%s must be between %.0f and %.0f", name, least,
                                 most);
    *value = (int64_t)item->valuedouble;
    return RESULT_OK;
}

/* Number of tokens that each penalty looks back; 0 or absent: all. */
static enum result contexts_read(const cJSON *body, struct sampling_params *sampling,
                                 struct api_error *error)
{
    const struct {
        const char *name;
        uint32_t *tokens;
    } fields[] = {{"repetition_context_size", &sampling->repetition_context},
                  {"presence_context_size", &sampling->presence_context},
                  {"frequency_context_size", &sampling->frequency_context}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        bool present;
        int64_t value = 0;
        enum result result = request_fields_read_integer(
            body, fields[i].name, 0, LIMIT_CONTEXT_TOKENS, &present, &value, error);
        if (result != RESULT_OK)
            return result;
        *fields[i].tokens = (uint32_t)value;
    }
    return RESULT_OK;
}

/* llama.cpp's names: `repeat_penalty` over the last `repeat_last_n` tokens, 64 unless given; 0: no
 * penalty; -1: all tokens. */
static enum result repeat_read(const cJSON *body, struct sampling_params *sampling,
                               struct api_error *error)
{
    static const char name[] = "repeat_penalty", last[] = "repeat_last_n";
    const cJSON *penalty = request_fields_member(body, name);
    bool present;
    int64_t tokens = 64;
    enum result result =
        request_fields_read_integer(body, last, -1, LIMIT_CONTEXT_TOKENS, &present, &tokens, error);
    if (result != RESULT_OK || !penalty)
        return result;
    double value = cJSON_IsNumber(penalty) ? penalty->valuedouble : -1;
    if (!(value > 0 && value <= 10))
        return api_error_invalid(error, name, "%s must be a number above 0, at most 10", name);
    if (request_fields_member(body, "repetition_penalty") ||
        request_fields_member(body, "repetition_context_size"))
        return api_error_invalid(error, name,
                                 "repeat_penalty and repetition_penalty are one setting: send one "
                                 "of them");
    sampling->repetition_penalty = tokens == 0 ? 1 : (float)value;
    sampling->repetition_context = tokens > 0 ? (uint32_t)tokens : 0;
    return RESULT_OK;
}

enum result request_fields_read_ends(const cJSON *body, struct generation_request *request,
                                     struct api_error *error)
{
    bool present;
    int64_t value = 0;
    uint32_t most = request->max_new_tokens > 0 ? request->max_new_tokens : LIMIT_CONTEXT_TOKENS;
    enum result result =
        request_fields_read_integer(body, "min_tokens", 0, most, &present, &value, error);
    request->min_tokens = (uint32_t)value;
    if (result != RESULT_OK)
        return result;
    result =
        request_fields_read_bool(body, "ignore_eos", "ignore_eos", &request->ignore_end, error);
    bool cache_prompt = true, speculation = true;
    if (result == RESULT_OK && request_fields_member(body, "cache_prompt"))
        result =
            request_fields_read_bool(body, "cache_prompt", "cache_prompt", &cache_prompt, error);
    if (result == RESULT_OK && request_fields_member(body, "speculation"))
        result = request_fields_read_bool(body, "speculation", "speculation", &speculation, error);
    request->no_prefix_cache = !cache_prompt;
    request->no_speculation = !speculation;
    return result;
}

enum result request_fields_read_sampling(const cJSON *body, const struct model_assets *assets,
                                         uint64_t random_seed, struct sampling_params *sampling,
                                         struct api_error *error)
{
    *sampling = sampling_params_default();
    for (size_t i = 0; i < sizeof float_fields / sizeof float_fields[0]; i++) {
        enum result result =
            float_field_read(body, &float_fields[i], &assets->sampling, sampling, error);
        if (result != RESULT_OK)
            return result;
    }
    if (sampling->top_p <= 0)
        sampling->top_p = FLT_MIN; /* the API allows 0: only the most likely token */
    if (sampling->typical_p <= 0)
        sampling->typical_p = FLT_MIN; /* likewise */
    bool present;
    int64_t value = 0;
    enum result result = contexts_read(body, sampling, error);
    if (result == RESULT_OK)
        result = repeat_read(body, sampling, error);
    if (result != RESULT_OK)
        return result;
    result =
        request_fields_read_integer(body, "top_k", -1, LIMIT_VOCAB_TOKENS, &present, &value, error);
    if (result != RESULT_OK)
        return result;
    if (present)
        sampling->top_k = value > 0 ? (uint32_t)value : 0;
    else
        sampling->top_k = assets->sampling.top_k == UINT32_MAX ? 0 : assets->sampling.top_k;
    result = request_fields_read_integer(body, "seed", -9007199254740992.0, 9007199254740992.0,
                                         &present, &value, error);
    if (result != RESULT_OK)
        return result;
    sampling->seed = present ? (uint64_t)value : random_seed;
    struct error_text words;
    if (sampling_params_check(sampling, &words) != RESULT_OK)
        return api_error_invalid(error, "", "%s", words.text);
    return RESULT_OK;
}

/* --- what ends an answer --------------------------------------------------------------------- */

static enum result stop_add(const cJSON *item, const char *name, struct generation_request *request,
                            struct api_error *error)
{
    if (!cJSON_IsString(item))
        return api_error_invalid(error, name, "%s must be a string or a list of strings", name);
    size_t length = strlen(item->valuestring);
    if (length < 1 || length > LIMIT_STOP_BYTES)
        return api_error_invalid(error, name, "a stop string must have 1 to %u bytes",
                                 LIMIT_STOP_BYTES);
    if (request->stop_count == LIMIT_STOP_STRINGS)
        return api_error_invalid(error, name, "more than %u stop strings", LIMIT_STOP_STRINGS);
    request->stops[request->stop_count++] =
        (struct stop_string){.bytes = item->valuestring, .length = length};
    return RESULT_OK;
}

enum result request_fields_read_stop(const cJSON *body, const char *name,
                                     struct generation_request *request, struct api_error *error)
{
    const cJSON *stop = request_fields_member(body, name);
    if (!stop)
        return RESULT_OK;
    if (!cJSON_IsArray(stop))
        return stop_add(stop, name, request, error);
    const cJSON *item;
    cJSON_ArrayForEach(item, stop)
    {
        enum result result = stop_add(item, name, request, error);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

enum result request_fields_read_stop_tokens(const cJSON *body, const struct model_assets *assets,
                                            struct generation_request *request,
                                            struct api_error *error)
{
    static const char name[] = "stop_token_ids";
    const cJSON *list = request_fields_member(body, name), *item;
    uint32_t vocab_tokens = tokenizer_vocab_tokens(assets->tokenizer);
    uint32_t most = LIMIT_STOP_TOKENS - assets->stop_id_count;
    if (list && !cJSON_IsArray(list))
        return api_error_invalid(error, name, "%s must be a list of token ids", name);
    cJSON_ArrayForEach(item, list)
    {
        double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!(value >= 0 && value < vocab_tokens && floor(value) == value))
            return api_error_invalid(error, name, "%s must have whole numbers below %u", name,
                                     vocab_tokens);
        if (request->stop_token_count == LIMIT_REQUEST_STOP_TOKENS ||
            request->stop_token_count == most)
            return api_error_invalid(error, name, "more than %u ids", request->stop_token_count);
        request->stop_tokens[request->stop_token_count++] = (uint32_t)value;
    }
    return request_fields_read_bool(body, "include_stop_str_in_output",
                                    "include_stop_str_in_output", &request->include_stop, error);
}

enum result request_fields_read_bool(const cJSON *object, const char *name, const char *param,
                                     bool *value, struct api_error *error)
{
    const cJSON *item = request_fields_member(object, name);
    *value = false;
    if (item && !cJSON_IsBool(item))
        return api_error_invalid(error, param, "%s must be true or false", param);
    *value = item && cJSON_IsTrue(item);
    return RESULT_OK;
}

enum result request_fields_read_string(const cJSON *body, const char *name, size_t most,
                                       const char **value, struct api_error *error)
{
    const cJSON *item = request_fields_member(body, name);
    *value = NULL;
    if (!item)
        return RESULT_OK;
    if (!cJSON_IsString(item))
        return api_error_invalid(error, name, "%s must be a string", name);
    size_t length = strlen(item->valuestring);
    if (length < 1 || length > most)
        return api_error_invalid(error, name, "%s must have 1 to %zu bytes", name, most);
    *value = item->valuestring;
    return RESULT_OK;
}

static bool is_off(const cJSON *item)
{
    return cJSON_IsFalse(item) || (cJSON_IsNumber(item) && item->valuedouble == 0) ||
           (cJSON_IsString(item) && !item->valuestring[0]) ||
           ((cJSON_IsArray(item) || cJSON_IsObject(item)) && !item->child);
}

enum result request_fields_refuse(const cJSON *body, const char *const names[],
                                  struct api_error *error)
{
    for (; *names; names++) {
        const cJSON *item = request_fields_member(body, *names);
        if (item && !is_off(item))
            return api_error_invalid(error, *names, "%s is not supported", *names);
    }
    return RESULT_OK;
}

enum result request_fields_check_known(const cJSON *body, const char *const known[],
                                       struct api_error *error)
{
    for (const cJSON *member = body->child; member; member = member->next) {
        const char *const *name = known;
        while (*name && strcmp(member->string, *name) != 0)
            name++;
        if (!*name)
            return api_error_invalid(error, "", "unknown member '%.64s'", member->string);
    }
    return RESULT_OK;
}

enum result request_fields_take_adapter(const cJSON *body, const struct model_assets *assets,
                                        const struct adapter **adapter, struct api_error *error)
{
    const cJSON *model = body ? request_fields_member(body, "model") : NULL;
    *adapter =
        cJSON_IsString(model) ? adapter_set_take(assets->adapters, model->valuestring) : NULL;
    if (*adapter || !model || !assets->adapters)
        return RESULT_OK;
    return request_fields_check_model(body, assets,
                                      error); /* it was unloaded after the first check */
}

const char *request_fields_model_name(const cJSON *body, const struct model_assets *assets)
{
    const cJSON *model = request_fields_member(body, "model");
    bool named = cJSON_IsString(model) && adapter_set_has(assets->adapters, model->valuestring);
    return named ? model->valuestring : assets->model_id;
}

enum result request_fields_check_model(const cJSON *body, const struct model_assets *assets,
                                       struct api_error *error)
{
    const cJSON *model = request_fields_member(body, "model");
    if (!model)
        return RESULT_OK;
    if (!cJSON_IsString(model))
        return api_error_invalid(error, "model", "model must be a string");
    if (model_assets_has_name(assets, model->valuestring))
        return RESULT_OK;
    (void)api_error_set(error, RESULT_NOT_FOUND, 404, "model_not_found",
                        "the model '%.100s' does not exist; this server has '%.100s'",
                        model->valuestring, assets->model_id);
    strcpy(error->param, "model");
    return RESULT_NOT_FOUND;
}
