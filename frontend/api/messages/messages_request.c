/*
 * Reads a body of Anthropic's messages API: a list of readers, run in order until one fails.
 *
 * Sampling has Anthropic's fields (temperature, top_p, top_k) and this server's own under the names
 * of the chat API. A body that is not JSON is read again with backslash_repair().
 */
#include "frontend/api/messages/messages_request.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/chat/chat_messages.h"
#include "frontend/api/chat/chat_request.h"
#include "frontend/api/generation/field_table.h"
#include "frontend/api/generation/grammar_fields.h"
#include "frontend/api/generation/request_documents.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/api/generation/sampler_fields.h"
#include "frontend/api/messages/backslash_repair.h"
#include "frontend/api/messages/messages_tools.h"
#include "frontend/api/messages/messages_turns.h"
#include "frontend/api/messages/schema_bounds.h"
#include "proto/must.h"

static enum result body_read(const char *json, size_t json_bytes, cJSON **body,
                             struct api_error *error)
{
    enum result result = request_fields_read_body(json, json_bytes, body, error);
    if (result == RESULT_OK)
        return result;
    char *repaired;
    size_t repaired_bytes;
    enum result repair = backslash_repair(json, json_bytes, &repaired, &repaired_bytes);
    if (repair == RESULT_NOT_FOUND)
        return result;
    cJSON_Delete(*body); /* of JSON followed by more bytes */
    *body = NULL;
    if (repair != RESULT_OK)
        return api_error_memory(error);
    result = request_fields_read_body(repaired, repaired_bytes, body, error);
    free(repaired);
    return result;
}

static enum result max_tokens_read(const cJSON *body, struct generation_request *request,
                                   struct api_error *error)
{
    bool present;
    int64_t value = 0;
    enum result result = request_fields_read_integer(body, "max_tokens", 1, LIMIT_CONTEXT_TOKENS,
                                                     &present, &value, error);
    if (result == RESULT_OK && !present)
        return api_error_invalid(error, "max_tokens", "max_tokens is required");
    request->max_new_tokens = (uint32_t)value;
    return result;
}

static enum result metadata_check(const cJSON *body, struct api_error *error)
{
    const cJSON *metadata = request_fields_member(body, "metadata");
    const cJSON *user = metadata ? request_fields_member(metadata, "user_id") : NULL;
    if (metadata && !cJSON_IsObject(metadata))
        return api_error_invalid(error, "metadata", "metadata must be an object");
    if (user && !cJSON_IsString(user))
        return api_error_invalid(error, "metadata.user_id", "metadata.user_id must be a string");
    return RESULT_OK;
}

/* --- thinking -------------------------------------------------------------------------------- */

static enum result budget_read(const cJSON *thinking, struct generation_request *request,
                               struct api_error *error)
{
    bool present;
    int64_t value = 0;
    enum result result = request_fields_read_integer(thinking, "budget_tokens", 1,
                                                     LIMIT_CONTEXT_TOKENS, &present, &value, error);
    if (result != RESULT_OK)
        return result;
    if (!present)
        return api_error_invalid(error, "thinking.budget_tokens",
                                 "thinking of type enabled needs budget_tokens");
    if (request->max_new_tokens > 0 && value >= request->max_new_tokens)
        return api_error_invalid(error, "thinking.budget_tokens",
                                 "budget_tokens must be less than max_tokens");
    request->thinking_budget = (uint32_t)value;
    return RESULT_OK;
}

static enum result display_read(const cJSON *thinking, struct generation_request *request,
                                struct api_error *error)
{
    const cJSON *display = request_fields_member(thinking, "display");
    const char *word = cJSON_IsString(display) ? display->valuestring : "";
    if (display && strcmp(word, "summarized") != 0 && strcmp(word, "omitted") != 0)
        return api_error_invalid(error, "thinking.display",
                                 "thinking.display must be 'summarized' or 'omitted'");
    struct messages_state *state = must_alloc(1, sizeof *state);
    state->omits_thinking = strcmp(word, "omitted") == 0;
    request->own = (struct format_state){.state = state, .destroy = free};
    return RESULT_OK;
}

static enum result thinking_read(const cJSON *body, struct generation_request *request,
                                 struct api_error *error)
{
    request->thinking_budget = THINKING_BUDGET_NONE;
    const cJSON *thinking = request_fields_member(body, "thinking");
    if (!thinking)
        return RESULT_OK;
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(thinking, "type");
    const char *word = cJSON_IsString(type) ? type->valuestring : "";
    enum result result = RESULT_OK;
    if (strcmp(word, "enabled") == 0)
        result = budget_read(thinking, request, error);
    else if (strcmp(word, "adaptive") != 0 && strcmp(word, "disabled") != 0)
        return api_error_invalid(
            error, "thinking.type",
            "thinking must be an object whose type is enabled, adaptive or disabled");
    request->thinking = strcmp(word, "disabled") == 0 ? THINKING_OFF : THINKING_ON;
    if (result == RESULT_OK)
        result = display_read(thinking, request, error);
    return result;
}

/* output_config.effort is the template's reasoning_effort. */
static enum result effort_read(cJSON *body, struct generation_request *request,
                               struct api_error *error)
{
    static const char *const efforts[] = {"low", "medium", "high", "xhigh", "max"};
    const cJSON *config = request_fields_member(body, "output_config");
    const cJSON *effort = config ? request_fields_member(config, "effort") : NULL;
    if (config && !cJSON_IsObject(config))
        return api_error_invalid(error, "output_config", "output_config must be an object");
    if (!effort)
        return RESULT_OK;
    size_t i = 0;
    while (cJSON_IsString(effort) && i < 5 && strcmp(effort->valuestring, efforts[i]) != 0)
        i++;
    if (!cJSON_IsString(effort) || i == 5)
        return api_error_invalid(error, "output_config.effort",
                                 "effort must be low, medium, high, xhigh or max");
    cJSON_DeleteItemFromObjectCaseSensitive(body, "template_variables");
    cJSON *variables = cJSON_AddObjectToObject(body, "template_variables");
    if (!variables || !cJSON_AddStringToObject(variables, "reasoning_effort", efforts[i]))
        return api_error_memory(error);
    request->template_variables = variables;
    return RESULT_OK;
}

static enum result schema_format_read(const cJSON *format, const char *param,
                                      struct generation_request *request, struct api_error *error)
{
    const cJSON *schema = format ? request_fields_member(format, "schema") : NULL;
    if (cJSON_IsObject(schema) && !schema_bounds_restore((cJSON *)schema))
        return api_error_memory(error);
    return grammar_fields_read_format(format, param, request, error);
}

/* output_config.format, or output_format, its former name; and other servers' fields. */
static enum result format_read(cJSON *body, struct generation_request *request,
                               struct api_error *error)
{
    const cJSON *config = request_fields_member(body, "output_config");
    const cJSON *format = config ? request_fields_member(config, "format") : NULL;
    enum result result = schema_format_read(format, "output_config.format", request, error);
    if (result == RESULT_OK)
        result = schema_format_read(request_fields_member(body, "output_format"), "output_format",
                                    request, error);
    return result == RESULT_OK ? chat_request_read_form(body, request, error) : result;
}

/* --- what is not done here ------------------------------------------------------------------- */

/* Context edits. Clearing earlier thinking is what templates do anyway; any other edit is refused.
 */
static enum result context_management_check(const cJSON *body, struct api_error *error)
{
    const cJSON *management = request_fields_member(body, "context_management");
    const cJSON *edits = management ? request_fields_member(management, "edits") : NULL;
    const cJSON *edit;
    cJSON_ArrayForEach(edit, edits)
    {
        const cJSON *type = cJSON_GetObjectItemCaseSensitive(edit, "type");
        if (!cJSON_IsString(type) || strcmp(type->valuestring, "clear_thinking_20251015") != 0)
            return api_error_invalid(error, "context_management.edits",
                                     "only clear_thinking_20251015 is supported");
    }
    return RESULT_OK;
}

static enum result unsupported_check(const cJSON *body, struct field_watch *watch,
                                     struct api_error *error)
{
    const cJSON *speed = request_fields_member(body, "speed");
    if (speed && !(cJSON_IsString(speed) && strcmp(speed->valuestring, "standard") == 0))
        return api_error_invalid(error, "speed", "only the speed 'standard' is supported");
    enum result result = context_management_check(body, error);
    return result == RESULT_OK ? field_table_check(body, FIELDS_MESSAGES, watch, error) : result;
}

/* --- the body -------------------------------------------------------------------------------- */

/* Reads what the prompt is made of. */
static enum result prompt_read(const struct parse_context *context,
                               struct generation_request *request, struct api_error *error)
{
    cJSON *body = request->body;
    enum result result = request_fields_check_model(body, context->assets, error);
    request_documents_begin(&request->images, context);
    if (result == RESULT_OK)
        result = unsupported_check(body, context->fields, error);
    if (result == RESULT_OK)
        result = thinking_read(body, request, error);
    if (result == RESULT_OK)
        result = effort_read(body, request, error);
    if (result == RESULT_OK)
        result = format_read(body, request, error);
    if (result == RESULT_OK)
        result = messages_tools_read(body, request, error);
    if (result == RESULT_OK)
        result = messages_turns_make(body, context->assets->model_id, &request->images, error);
    if (result == RESULT_OK) {
        request->messages = cJSON_GetObjectItemCaseSensitive(body, "messages");
        /* A last message of the assistant is continued; `prev` of the first item is the last. */
        const cJSON *last = request->messages->child->prev;
        const cJSON *role = cJSON_GetObjectItemCaseSensitive(last, "role");
        request->continue_final_message = strcmp(role->valuestring, "assistant") == 0;
        result = chat_messages_normalize_made(request->messages, error);
    }
    return result;
}

enum result messages_request_parse_prompt(const struct parse_context *context, const char *json,
                                          size_t json_bytes, struct generation_request *request,
                                          struct api_error *error)
{
    *request = (struct generation_request){0};
    enum result result = body_read(json, json_bytes, &request->body, error);
    if (result == RESULT_OK)
        result = prompt_read(context, request, error);
    if (result != RESULT_OK)
        generation_request_fini(request);
    return result;
}

enum result messages_request_parse(const struct parse_context *context, const char *json,
                                   size_t json_bytes, struct generation_request *request,
                                   struct api_error *error)
{
    const struct model_assets *assets = context->assets;
    *request = (struct generation_request){0};
    enum result result = body_read(json, json_bytes, &request->body, error);
    if (result == RESULT_OK)
        result = max_tokens_read(request->body, request, error);
    if (result == RESULT_OK)
        result = metadata_check(request->body, error);
    if (result == RESULT_OK)
        result =
            request_fields_read_bool(request->body, "stream", "stream", &request->stream, error);
    if (result == RESULT_OK)
        result = request_fields_read_sampling(request->body, assets, context->random_seed,
                                              &request->sampling, error);
    if (result == RESULT_OK)
        result = sampler_fields_read(request->body, assets->tokenizer, request, error);
    if (result == RESULT_OK)
        result = request_fields_read_stop(request->body, "stop_sequences", request, error);
    if (result == RESULT_OK)
        result = prompt_read(context, request, error);
    if (result != RESULT_OK)
        generation_request_fini(request);
    return result;
}
