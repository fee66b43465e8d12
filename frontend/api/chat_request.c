/*
 * Reading the body of a chat request: a short list of readers, run in order until one refuses.
 *
 * Fields of the official API whose feature this build lacks are listed with the value that means
 * "off"; any other value is a 400, because an ignored tool list or an ignored n would be a wrong
 * answer that looks like a right one.
 */
#include "frontend/api/chat_request.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "frontend/api/chat_messages.h"
#include "frontend/api/request_fields.h"

static enum result max_tokens_read(const cJSON *body, struct generation_request *request,
                                   struct api_error *error)
{
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
    return RESULT_OK;
}

static enum result stream_read(const cJSON *body, struct generation_request *request,
                               struct api_error *error)
{
    enum result result =
        request_fields_read_bool(body, "stream", "stream", &request->stream, error);
    if (result != RESULT_OK)
        return result;
    const cJSON *options = request_fields_member(body, "stream_options");
    if (!options)
        return RESULT_OK;
    if (!cJSON_IsObject(options))
        return api_error_invalid(error, "stream_options", "stream_options must be an object");
    if (!request->stream)
        return api_error_invalid(error, "stream_options",
                                 "stream_options is only allowed when stream is true");
    return request_fields_read_bool(options, "include_usage", "stream_options.include_usage",
                                    &request->include_usage, error);
}

/* --- what this build does not do ------------------------------------------------------------- */

static bool is_off(const cJSON *item)
{
    return cJSON_IsFalse(item) || ((cJSON_IsArray(item) || cJSON_IsObject(item)) && !item->child);
}

static enum result unsupported_check(const cJSON *body, struct api_error *error)
{
    static const char *const names[] = {"tools",      "functions", "function_call",     "logprobs",
                                        "prediction", "audio",     "web_search_options"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const cJSON *item = request_fields_member(body, names[i]);
        if (item && !is_off(item))
            return api_error_invalid(error, names[i], "%s is not supported", names[i]);
    }
    const cJSON *n = request_fields_member(body, "n");
    if (n && !(cJSON_IsNumber(n) && n->valuedouble == 1))
        return api_error_invalid(error, "n", "only n = 1 is supported");
    const cJSON *format = request_fields_member(body, "response_format");
    const cJSON *type = format ? request_fields_member(format, "type") : NULL;
    if (format && !(cJSON_IsString(type) && strcmp(type->valuestring, "text") == 0))
        return api_error_invalid(error, "response_format",
                                 "only response_format {\"type\": \"text\"} is supported");
    const cJSON *choice = request_fields_member(body, "tool_choice");
    if (choice && !(cJSON_IsString(choice) && (strcmp(choice->valuestring, "none") == 0 ||
                                               strcmp(choice->valuestring, "auto") == 0)))
        return api_error_invalid(error, "tool_choice", "tool_choice is not supported");
    return RESULT_OK;
}

enum result chat_request_parse(const struct parse_context *context, const char *json,
                               size_t json_bytes, struct generation_request *request,
                               struct api_error *error)
{
    const struct model_assets *assets = context->assets;
    *request = (struct generation_request){0};
    enum result result = request_fields_read_body(json, json_bytes, &request->body, error);
    if (result == RESULT_OK)
        result = request_fields_check_model(request->body, assets, error);
    if (result == RESULT_OK)
        result = unsupported_check(request->body, error);
    if (result == RESULT_OK)
        result = stream_read(request->body, request, error);
    if (result == RESULT_OK)
        result = max_tokens_read(request->body, request, error);
    if (result == RESULT_OK)
        result = request_fields_read_sampling(request->body, assets, context->random_seed,
                                              &request->sampling, error);
    if (result == RESULT_OK)
        result = request_fields_read_stop(request->body, "stop", request, error);
    if (result == RESULT_OK)
        result = request_fields_read_logit_bias(
            request->body, tokenizer_vocab_tokens(assets->tokenizer), request, error);
    if (result == RESULT_OK) {
        request->messages = cJSON_GetObjectItemCaseSensitive(request->body, "messages");
        result = chat_messages_normalize(request->messages, error);
    }
    if (result != RESULT_OK)
        generation_request_fini(request);
    return result;
}
