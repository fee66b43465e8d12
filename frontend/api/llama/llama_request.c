/*
 * The fields are rewritten into those of completions and read by their readers: names that only
 * llama.cpp has are taken out of the body first, so that what is left is checked as everywhere.
 *
 * Sampling defaults are those of llama.cpp's server, unless the checkpoint has its own. The text of
 * special tokens in a prompt means these tokens, because clients of this API render chat templates
 * themselves.
 */
#include "frontend/api/llama/llama_request.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/chat/chat_request.h"
#include "frontend/api/generation/field_table.h"
#include "frontend/api/generation/fim_tokens.h"
#include "frontend/api/generation/request_fields.h"

static void state_destroy(void *given)
{
    struct llama_state *state = given;
    cJSON_Delete(state->fields);
    cJSON_Delete(state->stops);
    free(state);
}

/* --- fields that only this API has ----------------------------------------------------------- */

static enum result integer_read(cJSON *body, const char *name, double least, double most,
                                int64_t usual, int64_t *value, struct api_error *error)
{
    bool present;
    *value = usual;
    enum result result =
        request_fields_read_integer(body, name, least, most, &present, value, error);
    if (result == RESULT_OK)
        cJSON_DeleteItemFromObjectCaseSensitive(body, name);
    return result;
}

static enum result counts_read(cJSON *body, struct llama_state *state, struct api_error *error)
{
    int64_t n_probs = 0, n_indent = 0, ignored = 0;
    bool has_predict = request_fields_member(body, "n_predict") != NULL;
    enum result result = integer_read(body, has_predict ? "n_predict" : "max_tokens", -1,
                                      LIMIT_CONTEXT_TOKENS, -1, &state->n_predict, error);
    if (result == RESULT_OK)
        result = integer_read(body, "n_probs", 0, LIMIT_TOP_LOGPROBS, 0, &n_probs, error);
    if (result == RESULT_OK)
        result = integer_read(body, "n_indent", 0, 1000, 0, &n_indent, error);
    if (result == RESULT_OK)
        result = integer_read(body, "t_max_predict_ms", -1, 1e12, 0, &state->predict_ms, error);
    /* No context is shifted here, so none is kept or discarded; there is no bound on prompts. */
    static const char *const without_effect[] = {"n_keep", "n_discard", "t_max_prompt_ms"};
    for (size_t i = 0; result == RESULT_OK && i < 3; i++)
        result = integer_read(body, without_effect[i], -1, 1e12, 0, &ignored, error);
    state->n_probs = (uint32_t)n_probs;
    state->n_indent = (uint32_t)n_indent;
    if (state->predict_ms < 0)
        state->predict_ms = 0;
    return result;
}

static enum result flags_read(cJSON *body, struct llama_state *state, struct api_error *error)
{
    const struct {
        const char *name;
        bool *value;
    } fields[] = {{"return_tokens", &state->return_tokens},
                  {"post_sampling_probs", &state->after_sampling},
                  {"timings_per_token", &state->per_token_times}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        enum result result =
            request_fields_read_bool(body, fields[i].name, fields[i].name, fields[i].value, error);
        if (result != RESULT_OK)
            return result;
        cJSON_DeleteItemFromObjectCaseSensitive(body, fields[i].name);
    }
    return RESULT_OK;
}

static enum result names_read(cJSON *body, struct llama_state *state, struct api_error *error)
{
    cJSON *names = cJSON_DetachItemFromObjectCaseSensitive(body, "response_fields");
    const cJSON *name;
    bool good = !names || cJSON_IsArray(names) || cJSON_IsNull(names);
    cJSON_ArrayForEach(name, names)
    {
        good &= cJSON_IsString(name);
    }
    good &= cJSON_GetArraySize(names) <= 64;
    if (good && names && names->child) {
        state->fields = names;
        return RESULT_OK;
    }
    cJSON_Delete(names);
    return good ? RESULT_OK
                : api_error_invalid(error, "response_fields",
                                    "response_fields must be a list of at most 64 strings");
}

/* --- sampling -------------------------------------------------------------------------------- */

/* The filters of llama.cpp's chain by their names there, and the field that turns each off. */
static const struct {
    const char *name;
    const char *field; /* NULL: nothing to turn off */
    double off;
} samplers[] = {
    {"penalties", "repeat_penalty", 1},
    {"dry", "dry_multiplier", 0},
    {"top_n_sigma", "top_n_sigma", 0},
    {"top_k", "top_k", 0},
    {"typ_p", "typical_p", 1},
    {"typical_p", "typical_p", 1},
    {"top_p", "top_p", 1},
    {"min_p", "min_p", 0},
    {"xtc", "xtc_probability", 0},
    {"temperature", NULL, 0},
    {"infill", NULL, 0},
};

#define SAMPLER_COUNT (sizeof samplers / sizeof samplers[0])

static bool number_set(cJSON *body, const char *name, double value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(body, name);
    return cJSON_AddNumberToObject(body, name, value) != NULL;
}

static enum result samplers_refuse(struct api_error *error)
{
    return api_error_invalid(error, "samplers",
                             "samplers must be a list of penalties, dry, top_n_sigma, top_k, "
                             "typ_p, top_p, min_p, xtc, temperature");
}

/* A filter that is not listed is off; the order is this server's. */
static enum result samplers_read(cJSON *body, bool infill, struct api_error *error)
{
    bool listed[SAMPLER_COUNT] = {false};
    cJSON *list = cJSON_DetachItemFromObjectCaseSensitive(body, "samplers");
    bool good = !list || cJSON_IsArray(list) || cJSON_IsNull(list);
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        size_t i = 0;
        while (i < SAMPLER_COUNT &&
               !(cJSON_IsString(item) && strcmp(samplers[i].name, item->valuestring) == 0))
            i++;
        good &= i < SAMPLER_COUNT && (infill || strcmp(samplers[i].name, "infill") != 0);
        if (i < SAMPLER_COUNT)
            listed[i] = true;
    }
    bool any = good && list && list->child;
    cJSON_Delete(list);
    if (!good)
        return samplers_refuse(error);
    for (size_t i = 0; any && i < SAMPLER_COUNT; i++) {
        bool on = listed[i];
        for (size_t k = 0; k < SAMPLER_COUNT; k++)
            on |= listed[k] && samplers[i].field && samplers[k].field &&
                  strcmp(samplers[i].field, samplers[k].field) == 0;
        if (!on && samplers[i].field && !number_set(body, samplers[i].field, samplers[i].off))
            return api_error_memory(error);
    }
    return RESULT_OK;
}

/* `repeat_penalty` and `repeat_last_n` under the names of all APIs. */
static enum result penalties_rename(cJSON *body, struct api_error *error)
{
    int64_t last = 64;
    const cJSON *penalty = request_fields_member(body, "repeat_penalty");
    if (penalty && !cJSON_IsNumber(penalty))
        return api_error_invalid(error, "repeat_penalty", "repeat_penalty must be a number");
    double value = penalty ? penalty->valuedouble : 1;
    enum result result =
        integer_read(body, "repeat_last_n", -1, LIMIT_CONTEXT_TOKENS, 64, &last, error);
    if (result != RESULT_OK)
        return result;
    cJSON_DeleteItemFromObjectCaseSensitive(body, "repeat_penalty");
    static const char *const contexts[] = {"repetition_context_size", "presence_context_size",
                                           "frequency_context_size"};
    for (size_t i = 0; last > 0 && i < 3; i++) {
        if (!number_set(body, contexts[i], (double)last))
            return api_error_memory(error);
    }
    if (last == 0 &&
        !(number_set(body, "presence_penalty", 0) && number_set(body, "frequency_penalty", 0)))
        return api_error_memory(error);
    if (last == 0)
        value = 1;
    if (penalty && !number_set(body, "repetition_penalty", value))
        return api_error_memory(error);
    return RESULT_OK;
}

/* Values that this API writes in another way: a negative temperature is greedy, and a seed of -1 or
 * 2^32 - 1 is a random one. */
static enum result special_values_read(cJSON *body, struct api_error *error)
{
    const cJSON *temperature = request_fields_member(body, "temperature");
    const cJSON *seed = request_fields_member(body, "seed");
    const cJSON *slot = request_fields_member(body, "id_slot");
    if (cJSON_IsNumber(temperature) && temperature->valuedouble < 0 &&
        !number_set(body, "temperature", 0))
        return api_error_memory(error);
    if (cJSON_IsNumber(seed) && (seed->valuedouble == -1 || seed->valuedouble == 4294967295.0))
        cJSON_DeleteItemFromObjectCaseSensitive(body, "seed");
    if (slot && !(cJSON_IsNumber(slot) && slot->valuedouble == -1))
        return api_error_invalid(error, "id_slot",
                                 "id_slot must be -1: requests have no fixed slots here");
    cJSON_DeleteItemFromObjectCaseSensitive(body, "id_slot");
    return RESULT_OK;
}

static enum result defaults_add(cJSON *body, const struct checkpoint_sampling *own,
                                struct api_error *error)
{
    const struct {
        const char *name;
        bool known;
        double value;
    } fields[] = {{"temperature", isfinite(own->temperature), 0.8},
                  {"top_p", isfinite(own->top_p), 0.95},
                  {"min_p", isfinite(own->min_p), 0.05},
                  {"top_k", own->top_k != UINT32_MAX, 40}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (!fields[i].known && !request_fields_member(body, fields[i].name) &&
            !number_set(body, fields[i].name, fields[i].value))
            return api_error_memory(error);
    }
    return RESULT_OK;
}

/* --- the prompt ------------------------------------------------------------------------------ */

static enum result prompt_refuse(struct api_error *error)
{
    return api_error_invalid(error, "prompt",
                             "prompt must be a string, a list of token ids and strings, or a list "
                             "of prompts");
}

/* True if all items are numbers or strings; *numbers: whether there is a number. */
static bool list_is_flat(const cJSON *list, bool *numbers)
{
    const cJSON *item;
    *numbers = false;
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsNumber(item) && !cJSON_IsString(item))
            return false;
        *numbers |= cJSON_IsNumber(item);
    }
    return true;
}

/* Makes a list of prompts of any shape. */
static enum result prompt_read(cJSON *body, struct generation_request *request,
                               struct api_error *error)
{
    cJSON *prompt = cJSON_GetObjectItemCaseSensitive(body, "prompt");
    bool numbers = false;
    if (!cJSON_IsArray(prompt) && !cJSON_IsString(prompt))
        return prompt_refuse(error);
    bool one = cJSON_IsString(prompt) || (list_is_flat(prompt, &numbers) && numbers);
    if (one) {
        cJSON *list = cJSON_CreateArray();
        prompt = cJSON_DetachItemViaPointer(body, prompt);
        if (!list || !cJSON_AddItemToArray(list, prompt) ||
            !cJSON_AddItemToObject(body, "prompt", list))
            return api_error_memory(error);
        prompt = list;
    }
    uint32_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, prompt)
    {
        if (!cJSON_IsString(item) && !(cJSON_IsArray(item) && list_is_flat(item, &numbers)))
            return prompt_refuse(error);
        if (++count > LIMIT_PROMPTS)
            return api_error_invalid(error, "prompt", "more than %u prompts", LIMIT_PROMPTS);
    }
    if (count == 0)
        return api_error_invalid(error, "prompt", "the prompt is empty");
    request->prompts = prompt;
    request->prompts_mixed = request->prompts_special = true;
    return RESULT_OK;
}

static enum result extras_check(const cJSON *extras, struct api_error *error)
{
    const cJSON *extra;
    if (extras && !cJSON_IsArray(extras))
        return api_error_invalid(error, "input_extra",
                                 "input_extra must be a list of {\"filename\": string, \"text\": "
                                 "string}");
    cJSON_ArrayForEach(extra, extras)
    {
        const cJSON *name = request_fields_member(extra, "filename");
        if (!cJSON_IsString(cJSON_GetObjectItemCaseSensitive(extra, "text")))
            return api_error_invalid(error, "input_extra", "each input_extra needs a string text");
        if (name && !cJSON_IsString(name))
            return api_error_invalid(error, "input_extra", "a filename must be a string");
    }
    return RESULT_OK;
}

static enum result infill_read(const struct parse_context *context, cJSON *body,
                               struct generation_request *request, struct api_error *error)
{
    const struct tokenizer *tokenizer = context->assets->tokenizer;
    static const char *const names[] = {"input_prefix", "input_suffix", "prompt"};
    const char *texts[3] = {NULL};
    struct fim_tokens tokens;
    if (!fim_tokens_find(tokenizer, &tokens))
        return fim_tokens_refuse(&tokens, "", 501, error);
    for (size_t i = 0; i < 3; i++) {
        const cJSON *text = request_fields_member(body, names[i]);
        if (!cJSON_IsString(text) && (text || i < 2))
            return api_error_invalid(error, names[i], "%s must be a string", names[i]);
        texts[i] = cJSON_GetStringValue(text);
    }
    const cJSON *extras = request_fields_member(body, "input_extra");
    enum result result = extras_check(extras, error);
    if (result != RESULT_OK)
        return result;
    cJSON *prompts = cJSON_CreateArray();
    cJSON *prompt = fim_tokens_prompt(
        tokenizer, &tokens,
        &(struct fim_parts){
            .prefix = texts[0], .suffix = texts[1], .middle = texts[2], .extras = extras});
    cJSON_DeleteItemFromObjectCaseSensitive(body, "prompt");
    if (!prompts || !prompt || !cJSON_AddItemToArray(prompts, prompt) ||
        !cJSON_AddItemToObject(body, "prompt", prompts))
        return api_error_memory(error);
    request->prompts = prompts;
    request->prompts_mixed = true;
    return RESULT_OK;
}

/* --- all of it ------------------------------------------------------------------------------- */

static enum result own_fields_read(const struct parse_context *context, bool infill,
                                   struct generation_request *request, struct llama_state *state,
                                   struct api_error *error)
{
    cJSON *body = request->body;
    enum result result = counts_read(body, state, error);
    if (result == RESULT_OK)
        result = flags_read(body, state, error);
    if (result == RESULT_OK)
        result = names_read(body, state, error);
    if (result == RESULT_OK)
        result = samplers_read(body, infill, error);
    if (result == RESULT_OK)
        result = special_values_read(body, error);
    if (result == RESULT_OK)
        result = penalties_rename(body, error);
    if (result == RESULT_OK)
        result = defaults_add(body, &context->assets->sampling, error);
    return result;
}

static enum result rest_read(const struct parse_context *context,
                             struct generation_request *request, struct llama_state *state,
                             struct api_error *error)
{
    static const char *const names[] = {
        "image_data",       "echo", "suffix", "logprobs", "include_stop_str_in_output",
        "return_token_ids", NULL};
    cJSON *body = request->body;
    int64_t n;
    enum result result = request_fields_refuse(body, names, error);
    if (result == RESULT_OK)
        result = integer_read(body, "n", 1, 1, 1, &n, error);
    if (result == RESULT_OK)
        result = field_table_refuse(body, FIELDS_COMPLETIONS, error);
    if (result == RESULT_OK)
        result = chat_request_read_stream(body, request, error);
    request->max_new_tokens = state->n_predict > 0    ? (uint32_t)state->n_predict
                              : state->n_predict == 0 ? 1
                                                      : 0;
    if (result == RESULT_OK)
        result = request_fields_read_ends(body, request, error);
    if (result == RESULT_OK)
        result = chat_request_read_settings(context, body, request, error);
    request->logprobs = state->n_probs > 0;
    request->top_logprobs = state->n_probs;
    if (result == RESULT_OK && state->after_sampling && request->sampling.temperature > 0)
        return api_error_invalid(error, "post_sampling_probs",
                                 "post_sampling_probs is only supported with temperature 0");
    const cJSON *stop = request_fields_member(body, "stop");
    if (result == RESULT_OK && stop)
        state->stops = cJSON_Duplicate(stop, true);
    return result;
}

static enum result body_parse(const struct parse_context *context, bool infill, const char *json,
                              size_t json_bytes, struct generation_request *request,
                              struct api_error *error)
{
    struct llama_state *state = calloc(1, sizeof *state);
    *request = (struct generation_request){.thinking_budget = THINKING_BUDGET_NONE};
    if (!state)
        return api_error_memory(error);
    request->own = (struct format_state){.state = state, .destroy = state_destroy};
    enum result result = request_fields_read_body(json, json_bytes, &request->body, error);
    if (result == RESULT_OK)
        result = request_fields_check_model(request->body, context->assets, error);
    if (result == RESULT_OK)
        result = own_fields_read(context, infill, request, state, error);
    if (result == RESULT_OK)
        result = rest_read(context, request, state, error);
    if (result == RESULT_OK)
        result = infill ? infill_read(context, request->body, request, error)
                        : prompt_read(request->body, request, error);
    if (result != RESULT_OK)
        generation_request_fini(request);
    return result;
}

enum result llama_request_parse(const struct parse_context *context, const char *json,
                                size_t json_bytes, struct generation_request *request,
                                struct api_error *error)
{
    return body_parse(context, false, json, json_bytes, request, error);
}

enum result llama_request_parse_infill(const struct parse_context *context, const char *json,
                                       size_t json_bytes, struct generation_request *request,
                                       struct api_error *error)
{
    return body_parse(context, true, json, json_bytes, request, error);
}
