/*
 * Reads the body of a chat request: a list of readers, run in order until one fails.
 *
 * Fields that are not done are refused by generation/field_table.h, because an ignored grammar would
 * give a wrong answer that looks right.
 */
#include "frontend/api/chat/chat_request.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "frontend/api/chat/chat_messages.h"
#include "frontend/api/chat/chat_tools.h"
#include "frontend/api/generation/bias_fields.h"
#include "frontend/api/generation/field_table.h"
#include "frontend/api/generation/grammar_fields.h"
#include "frontend/api/generation/request_documents.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/api/generation/sampler_fields.h"

typedef enum result reader(const struct parse_context *context, cJSON *body,
                           struct generation_request *request, struct api_error *error);

static enum result max_tokens_read(const struct parse_context *context, cJSON *body,
                                   struct generation_request *request, struct api_error *error)
{
    (void)context;
    static const char *const names[] = {"max_completion_tokens", "max_tokens"};
    for (size_t i = 0; i < 2; i++) {
        bool present;
        int64_t value = 0;
        enum result result = request_fields_read_integer(body, names[i], 1, LIMIT_CONTEXT_TOKENS,
                                                         &present, &value, error);
        if (result != RESULT_OK)
            return result;
        if (present && request->max_new_tokens == 0)
            request->max_new_tokens = (uint32_t)value;
    }
    return request_fields_read_ends(body, request, error);
}

enum result chat_request_read_stream(cJSON *body, struct generation_request *request,
                                     struct api_error *error)
{
    enum result result =
        request_fields_read_bool(body, "stream", "stream", &request->stream, error);
    if (result == RESULT_OK)
        result = request_fields_read_bool(body, "timings_per_token", "timings_per_token",
                                          &request->timings_per_token, error);
    if (result == RESULT_OK)
        result = request_fields_read_bool(body, "return_progress", "return_progress",
                                          &request->return_progress, error);
    if (result != RESULT_OK)
        return result;
    if (request->return_progress && !request->stream)
        return api_error_invalid(error, "return_progress",
                                 "return_progress is only allowed when stream is true");
    const cJSON *options = request_fields_member(body, "stream_options");
    if (!options)
        return RESULT_OK;
    if (!cJSON_IsObject(options))
        return api_error_invalid(error, "stream_options", "stream_options must be an object");
    if (!request->stream)
        return api_error_invalid(error, "stream_options",
                                 "stream_options is only allowed when stream is true");
    static const char continuous[] = "stream_options.continuous_usage_stats";
    result = request_fields_read_bool(options, "include_usage", "stream_options.include_usage",
                                      &request->include_usage, error);
    if (result == RESULT_OK)
        result = request_fields_read_bool(options, "continuous_usage_stats", continuous,
                                          &request->continuous_usage, error);
    request->continuous_usage = request->continuous_usage && request->include_usage;
    return result;
}

static enum result stream_read(const struct parse_context *context, cJSON *body,
                               struct generation_request *request, struct api_error *error)
{
    (void)context;
    return chat_request_read_stream(body, request, error);
}

enum result chat_request_read_prompt_logprobs(const cJSON *body, struct generation_request *request,
                                              struct api_error *error)
{
    int64_t value = 0;
    enum result result = request_fields_read_integer(body, "prompt_logprobs", 0, LIMIT_TOP_LOGPROBS,
                                                     &request->prompt_logprobs, &value, error);
    if (result != RESULT_OK || !request->prompt_logprobs)
        return result;
    if (request->stream)
        return api_error_invalid(error, "prompt_logprobs",
                                 "prompt_logprobs are not available when stream is true");
    request->prompt_logprobs_top = request->top_prompt_logprobs = (uint32_t)value;
    request->scores_prompt = true;
    return RESULT_OK;
}

static enum result choices_read(const struct parse_context *context, cJSON *body,
                                struct generation_request *request, struct api_error *error)
{
    (void)context;
    bool present;
    int64_t value = 1;
    enum result result =
        request_fields_read_integer(body, "n", 1, LIMIT_CHOICES, &present, &value, error);
    request->choices = (uint32_t)value;
    if (result == RESULT_OK)
        result = request_fields_read_bool(body, "logprobs", "logprobs", &request->logprobs, error);
    value = 0;
    if (result == RESULT_OK)
        result = request_fields_read_integer(body, "top_logprobs", 0, LIMIT_TOP_LOGPROBS, &present,
                                             &value, error);
    request->top_logprobs = (uint32_t)value;
    if (result == RESULT_OK && value > 0 && !request->logprobs)
        return api_error_invalid(error, "top_logprobs",
                                 "top_logprobs is only allowed when logprobs is true");
    if (result == RESULT_OK)
        result = chat_request_read_prompt_logprobs(body, request, error);
    return result;
}

/* --- thinking, the template ------------------------------------------------------------------ */

/* Adds a variable for the template, unless the client set it. */
static enum result variable_add(cJSON *body, struct generation_request *request, const char *name,
                                cJSON *value, struct api_error *error)
{
    if (!request->template_variables)
        request->template_variables = cJSON_AddObjectToObject(body, "chat_template_kwargs");
    if (cJSON_GetObjectItemCaseSensitive(request->template_variables, name)) {
        cJSON_Delete(value);
        return RESULT_OK;
    }
    if (cJSON_AddItemToObject(request->template_variables, name, value))
        return RESULT_OK;
    cJSON_Delete(value);
    return api_error_memory(error);
}

static enum result variables_read(cJSON *body, struct generation_request *request,
                                  struct api_error *error)
{
    cJSON *variables = cJSON_GetObjectItemCaseSensitive(body, "chat_template_kwargs");
    if (cJSON_IsNull(variables)) {
        cJSON_DeleteItemFromObjectCaseSensitive(body, "chat_template_kwargs");
        variables = NULL;
    }
    if (variables && !cJSON_IsObject(variables))
        return api_error_invalid(error, "chat_template_kwargs",
                                 "chat_template_kwargs must be an object");
    if (cJSON_GetArraySize(variables) > (int)LIMIT_TEMPLATE_VARIABLES)
        return api_error_invalid(error, "chat_template_kwargs", "more than %u variables",
                                 LIMIT_TEMPLATE_VARIABLES);
    request->template_variables = variables;
    return RESULT_OK;
}

static enum result prefill_read(const struct parse_context *context, cJSON *body,
                                struct generation_request *request, struct api_error *error)
{
    (void)context;
    const cJSON *generation = request_fields_member(body, "add_generation_prompt");
    bool generate;
    enum result result = request_fields_read_bool(body, "add_generation_prompt",
                                                  "add_generation_prompt", &generate, error);
    if (result == RESULT_OK)
        result = request_fields_read_bool(body, "continue_final_message", "continue_final_message",
                                          &request->continue_final_message, error);
    if (result != RESULT_OK)
        return result;
    if (request->continue_final_message && generation && generate)
        return api_error_invalid(error, "continue_final_message",
                                 "continue_final_message and add_generation_prompt cannot both be "
                                 "true");
    request->no_generation_prompt = generation && !generate;
    return RESULT_OK;
}

static enum result effort_read(cJSON *body, struct generation_request *request,
                               struct api_error *error)
{
    static const char *const words[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    const char *effort;
    enum result result = request_fields_read_string(body, "reasoning_effort", 16, &effort, error);
    if (result != RESULT_OK || !effort)
        return result;
    size_t i = 0;
    while (i < sizeof words / sizeof words[0] && strcmp(effort, words[i]) != 0)
        i++;
    if (i == sizeof words / sizeof words[0])
        return api_error_invalid(error, "reasoning_effort",
                                 "reasoning_effort must be one of none, minimal, low, medium, "
                                 "high, xhigh and max");
    if (i == 0)
        request->thinking = THINKING_OFF;
    return variable_add(body, request, "reasoning_effort", cJSON_CreateString(effort), error);
}

enum result chat_request_read_verbosity(cJSON *body, const cJSON *holder, const char *param,
                                        struct generation_request *request, struct api_error *error)
{
    static const char *const words[] = {"low", "medium", "high"};
    const cJSON *item = request_fields_member(holder, "verbosity");
    size_t i = 0;
    if (!item)
        return RESULT_OK;
    while (i < 3 && !(cJSON_IsString(item) && strcmp(item->valuestring, words[i]) == 0))
        i++;
    if (i == 3)
        return api_error_invalid(error, param, "%s must be low, medium or high", param);
    return variable_add(body, request, "verbosity", cJSON_CreateString(words[i]), error);
}

static enum result tags_read(const cJSON *body, struct generation_request *request,
                             struct api_error *error)
{
    enum result result = request_fields_read_string(
        body, "thinking_start_token", LIMIT_REASONING_TAG_BYTES, &request->thinking_start, error);
    if (result != RESULT_OK)
        return result;
    return request_fields_read_string(body, "thinking_end_token", LIMIT_REASONING_TAG_BYTES,
                                      &request->thinking_end, error);
}

enum result chat_request_read_thinking(cJSON *body, struct generation_request *request,
                                       struct api_error *error)
{
    bool present;
    bool enabled;
    int64_t budget = 0;
    enum result result = variables_read(body, request, error);
    if (result == RESULT_OK)
        result = effort_read(body, request, error);
    if (result == RESULT_OK)
        result = tags_read(body, request, error);
    if (result == RESULT_OK)
        result = request_fields_read_integer(body, "thinking_budget", 0, LIMIT_CONTEXT_TOKENS,
                                             &present, &budget, error);
    if (result != RESULT_OK)
        return result;
    request->thinking_budget = present ? (uint32_t)budget : THINKING_BUDGET_NONE;
    result = request_fields_read_bool(body, "enable_thinking", "enable_thinking", &enabled, error);
    if (result != RESULT_OK)
        return result;
    const cJSON *own =
        request->template_variables
            ? cJSON_GetObjectItemCaseSensitive(request->template_variables, "enable_thinking")
            : NULL;
    if (request_fields_member(body, "enable_thinking"))
        request->thinking = enabled ? THINKING_ON : THINKING_OFF;
    else if (cJSON_IsBool(own))
        request->thinking = cJSON_IsTrue(own) ? THINKING_ON : THINKING_OFF;
    return RESULT_OK;
}

/* --- parts that are done in one way ---------------------------------------------------------- */

static enum result modalities_check(const cJSON *body, struct api_error *error)
{
    const cJSON *modality, *list = request_fields_member(body, "modalities");
    if (list && !cJSON_IsArray(list))
        return api_error_invalid(error, "modalities", "modalities must be a list");
    cJSON_ArrayForEach(modality, list)
    {
        if (!cJSON_IsString(modality) || strcmp(modality->valuestring, "text") != 0)
            return api_error_invalid(error, "modalities", "answers are text only");
    }
    return RESULT_OK;
}

static enum result lacking_refuse(const struct parse_context *context, cJSON *body,
                                  struct generation_request *request, struct api_error *error)
{
    (void)request;
    enum result result = field_table_check(body, FIELDS_CHAT, context->fields, error);
    return result == RESULT_OK ? modalities_check(body, error) : result;
}

enum result chat_request_read_form(cJSON *body, struct generation_request *request,
                                   struct api_error *error)
{
    enum result result = grammar_fields_read_format(request_fields_member(body, "response_format"),
                                                    "response_format", request, error);
    return result == RESULT_OK ? grammar_fields_read(body, request, error) : result;
}

/* --- all of it ------------------------------------------------------------------------------- */

enum result chat_request_read_settings(const struct parse_context *context, cJSON *body,
                                       struct generation_request *request, struct api_error *error)
{
    const struct model_assets *assets = context->assets;
    enum result result =
        request_fields_read_sampling(body, assets, context->random_seed, &request->sampling, error);
    if (result == RESULT_OK)
        result = sampler_fields_read(body, assets->tokenizer, request, error);
    if (result == RESULT_OK)
        result = request_fields_read_stop(body, "stop", request, error);
    if (result == RESULT_OK)
        result = request_fields_read_stop_tokens(body, assets, request, error);
    if (result == RESULT_OK)
        result = bias_fields_read(body, assets->tokenizer, request, error);
    if (result == RESULT_OK)
        result = request_fields_read_bool(body, "return_token_ids", "return_token_ids",
                                          &request->return_token_ids, error);
    return result == RESULT_OK ? chat_request_read_form(body, request, error) : result;
}

static enum result tools_read(const struct parse_context *context, cJSON *body,
                              struct generation_request *request, struct api_error *error)
{
    (void)context;
    return chat_tools_read(body, request, error);
}

/* mlx-vlm's field: the side of a square, or width and height. */
static enum result resize_shape_read(const cJSON *body, struct generation_request *request,
                                     struct api_error *error)
{
    static const char name[] = "resize_shape";
    const cJSON *item = request_fields_member(body, name);
    uint32_t sides[2] = {0};
    int count = 0;
    if (!item)
        return RESULT_OK;
    const cJSON *side = cJSON_IsArray(item) ? item->child : item;
    for (; side && count < 3; side = cJSON_IsArray(item) ? side->next : NULL, count++) {
        double value = cJSON_IsNumber(side) ? side->valuedouble : 0;
        if (!(value >= 1 && value <= LIMIT_IMAGE_SIDE && value == (double)(uint32_t)value))
            count = 3;
        else if (count < 2)
            sides[count] = (uint32_t)value;
    }
    if (count < 1 || count > 2)
        return api_error_invalid(error, name, "%s must be one or two whole numbers from 1 to %u",
                                 name, LIMIT_IMAGE_SIDE);
    request->box_width = sides[0];
    request->box_height = count == 2 ? sides[1] : sides[0];
    return RESULT_OK;
}

/* `thinking`: {"type": "enabled" or "disabled", "budget_tokens"}, as hosted models take it. Fields of
 * this server's own come first. */
static enum result thinking_object_read(const cJSON *body, struct generation_request *request,
                                        struct api_error *error)
{
    static const char name[] = "thinking";
    const cJSON *thinking = request_fields_member(body, name);
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(thinking, "type"));
    bool enabled = type && strcmp(type, "enabled") == 0;
    bool present = false;
    int64_t budget = 0;
    if (!thinking)
        return RESULT_OK;
    if (!enabled && !(type && strcmp(type, "disabled") == 0))
        return api_error_invalid(error, name,
                                 "thinking must be an object of the type enabled or disabled");
    enum result result = request_fields_read_integer(
        thinking, "budget_tokens", 0, LIMIT_CONTEXT_TOKENS, &present, &budget, error);
    if (result == RESULT_OK && request->thinking == THINKING_UNSET)
        request->thinking = enabled ? THINKING_ON : THINKING_OFF;
    if (result == RESULT_OK && present && request->thinking_budget == THINKING_BUDGET_NONE)
        request->thinking_budget = (uint32_t)budget;
    return result;
}

static enum result thinking_read(const struct parse_context *context, cJSON *body,
                                 struct generation_request *request, struct api_error *error)
{
    (void)context;
    bool included;
    enum result result = chat_request_read_thinking(body, request, error);
    if (result == RESULT_OK)
        result = thinking_object_read(body, request, error);
    if (result == RESULT_OK)
        result = request_fields_read_bool(body, "include_reasoning", "include_reasoning", &included,
                                          error);
    request->hide_reasoning = request_fields_member(body, "include_reasoning") && !included;
    return result == RESULT_OK
               ? chat_request_read_verbosity(body, body, "verbosity", request, error)
               : result;
}

static enum result messages_read(const struct parse_context *context, cJSON *body,
                                 struct generation_request *request, struct api_error *error)
{
    enum result result = resize_shape_read(body, request, error);
    if (result != RESULT_OK)
        return result;
    request_documents_begin(&request->images, context);
    request->messages = cJSON_GetObjectItemCaseSensitive(body, "messages");
    return chat_messages_normalize(request->messages, &request->images, error);
}

enum result chat_request_read(const struct parse_context *context,
                              struct generation_request *request, struct api_error *error)
{
    static reader *const readers[] = {
        lacking_refuse, stream_read,   max_tokens_read, choices_read, chat_request_read_settings,
        prefill_read,   thinking_read, tools_read,      messages_read};
    enum result result = request_fields_check_model(request->body, context->assets, error);
    for (size_t i = 0; result == RESULT_OK && i < sizeof readers / sizeof readers[0]; i++)
        result = readers[i](context, request->body, request, error);
    return result;
}

enum result chat_request_parse(const struct parse_context *context, const char *json,
                               size_t json_bytes, struct generation_request *request,
                               struct api_error *error)
{
    *request = (struct generation_request){0};
    enum result result = request_fields_read_body(json, json_bytes, &request->body, error);
    if (result == RESULT_OK)
        result = chat_request_read(context, request, error);
    if (result != RESULT_OK)
        generation_request_fini(request);
    return result;
}
