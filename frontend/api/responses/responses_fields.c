/*
 * Settings as tables: allowed values of a field, fields that must be absent, and what a reply shows
 * of each. Fields with more than one value have a reader each.
 *
 * What a reply shows of the request is written here too, so that both sides of a field are in one
 * file.
 */
#include "frontend/api/responses/responses_fields.h"

#include <cjson/cJSON.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/chat/chat_request.h"
#include "frontend/api/generation/grammar_fields.h"

static const char *text_of(const cJSON *object, const char *member)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, member);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* --- plain fields ---------------------------------------------------------------------------- */

/* Fields with one value, and the values that ask for what this server does anyway. */
static const struct word_field {
    const char *object; /* the object that holds it, or NULL */
    const char *name;
    const char *param;
    const char *words[5];
} word_fields[] = {
    {NULL, "truncation", "truncation", {"disabled", "auto"}},
    {NULL, "service_tier", "service_tier", {"auto", "default"}},
    {NULL, "prompt_cache_retention", "prompt_cache_retention", {"in_memory", "in-memory", "24h"}},
    {"background_options",
     "completion_window",
     "background_options.completion_window",
     {"soonest"}},
    {"reasoning", "summary", "reasoning.summary", {"auto", "concise", "detailed"}},
    {"reasoning",
     "generate_summary",
     "reasoning.generate_summary",
     {"auto", "concise", "detailed"}},
};

static enum result word_field_check(const cJSON *body, const struct word_field *field,
                                    struct api_error *error)
{
    const cJSON *object = field->object ? request_fields_member(body, field->object) : body;
    const cJSON *item = object ? request_fields_member(object, field->name) : NULL;
    if (!item)
        return RESULT_OK;
    if (!cJSON_IsString(item))
        return api_error_invalid(error, field->param, "%s must be a string", field->param);
    for (size_t i = 0; i < 5 && field->words[i]; i++) {
        if (strcmp(item->valuestring, field->words[i]) == 0)
            return RESULT_OK;
    }
    return api_error_invalid(error, field->param, "%s '%.40s' is not supported, only '%s' is",
                             field->param, item->valuestring, field->words[0]);
}

static enum result strings_check(const cJSON *body, struct api_error *error)
{
    static const char *const names[] = {"user", "safety_identifier", "prompt_cache_key"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const cJSON *item = request_fields_member(body, names[i]);
        if (item && !cJSON_IsString(item))
            return api_error_invalid(error, names[i], "%s must be a string", names[i]);
    }
    return RESULT_OK;
}

static enum result objects_check(const cJSON *body, struct api_error *error)
{
    static const char *const names[] = {"text", "reasoning", "stream_options", "metadata",
                                        "background_options"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const cJSON *item = request_fields_member(body, names[i]);
        if (item && !cJSON_IsObject(item))
            return api_error_invalid(error, names[i], "%s must be an object", names[i]);
    }
    return RESULT_OK;
}

static enum result metadata_check(const cJSON *body, struct api_error *error)
{
    const cJSON *metadata = request_fields_member(body, "metadata");
    uint32_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, metadata)
    {
        if (!cJSON_IsString(item))
            return api_error_invalid(error, "metadata", "metadata must have strings as values");
        if (++count > LIMIT_RESPONSE_METADATA)
            return api_error_invalid(error, "metadata", "more than %u pairs",
                                     LIMIT_RESPONSE_METADATA);
        if (strlen(item->string) > LIMIT_RESPONSE_METADATA_KEY_BYTES ||
            strlen(item->valuestring) > LIMIT_RESPONSE_METADATA_VALUE_BYTES)
            return api_error_invalid(
                error, "metadata", "a key has at most %u bytes, a value at most %u",
                LIMIT_RESPONSE_METADATA_KEY_BYTES, LIMIT_RESPONSE_METADATA_VALUE_BYTES);
    }
    return RESULT_OK;
}

/* --- what decides the answer ----------------------------------------------------------------- */

/* Returns `usual` if absent. */
static enum result flag_read(const cJSON *body, const char *name, bool usual, bool *value,
                             struct api_error *error)
{
    enum result result = request_fields_read_bool(body, name, name, value, error);
    if (!request_fields_member(body, name))
        *value = usual;
    return result;
}

static enum result delivery_read(const cJSON *body, struct generation_request *request,
                                 struct responses_settings *settings, struct api_error *error)
{
    static const char *const hidden = "stream_options.include_obfuscation";
    const cJSON *options = request_fields_member(body, "stream_options");
    bool obfuscates = false;
    enum result result = flag_read(body, "stream", false, &request->stream, error);
    if (result == RESULT_OK)
        result = flag_read(body, "store", true, &settings->store, error);
    if (result == RESULT_OK)
        result = flag_read(body, "background", false, &request->background, error);
    if (result == RESULT_OK && options)
        result =
            request_fields_read_bool(options, "include_obfuscation", hidden, &obfuscates, error);
    if (result != RESULT_OK)
        return result;
    if (options && !request->stream)
        return api_error_invalid(error, "stream_options",
                                 "stream_options is only allowed when stream is true");
    if (obfuscates)
        return api_error_invalid(error, hidden, "obfuscation is not supported");
    if (request->background && !settings->store)
        return api_error_invalid(error, "background",
                                 "an answer in the background must be stored: store is false");
    return RESULT_OK;
}

static enum result counts_read(const cJSON *body, struct generation_request *request,
                               struct api_error *error)
{
    bool present;
    int64_t value = 0;
    enum result result = request_fields_read_integer(body, "max_output_tokens", 1,
                                                     LIMIT_CONTEXT_TOKENS, &present, &value, error);
    request->max_new_tokens = result == RESULT_OK && present ? (uint32_t)value : 0;
    if (result == RESULT_OK) /* about tools that run in the server; there are none */
        result = request_fields_read_integer(body, "max_tool_calls", 1, LIMIT_CONTEXT_TOKENS,
                                             &present, &value, error);
    if (result == RESULT_OK)
        result = request_fields_read_integer(body, "top_logprobs", 0, LIMIT_TOP_LOGPROBS, &present,
                                             &value, error);
    if (result == RESULT_OK && present)
        request->top_logprobs = (uint32_t)value;
    return result;
}

/* Values of `include`; `matters`: the answer changes. */
static const struct {
    const char *name;
    bool matters;
} includes[] = {
    {"message.output_text.logprobs", true},
    {"reasoning.encrypted_content", false},
    {"file_search_call.results", false},
    {"web_search_call.results", false},
    {"web_search_call.action.sources", false},
    {"message.input_image.image_url", false},
    {"computer_call_output.output.image_url", false},
    {"code_interpreter_call.outputs", false},
};

static enum result include_read(const cJSON *body, struct generation_request *request,
                                struct api_error *error)
{
    const cJSON *list = request_fields_member(body, "include");
    if (list && !cJSON_IsArray(list))
        return api_error_invalid(error, "include", "include must be a list of strings");
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        size_t i = 0;
        while (i < sizeof includes / sizeof includes[0] &&
               !(cJSON_IsString(item) && strcmp(item->valuestring, includes[i].name) == 0))
            i++;
        if (i == sizeof includes / sizeof includes[0])
            return api_error_invalid(error, "include", "'%.60s' cannot be included",
                                     cJSON_IsString(item) ? item->valuestring : "(no string)");
        request->logprobs |= includes[i].matters;
    }
    if (request->top_logprobs > 0) /* alternatives imply logprobs */
        request->logprobs = true;
    return RESULT_OK;
}

static enum result format_read(cJSON *body, struct generation_request *request,
                               struct api_error *error)
{
    const cJSON *text = request_fields_member(body, "text");
    const cJSON *format = text ? request_fields_member(text, "format") : NULL;
    enum result result = grammar_fields_read_format(format, "text.format", request, error);
    return result == RESULT_OK ? grammar_fields_read(body, request, error) : result;
}

/* Reads the effort, which has another name in the chat API, and the chat API's fields about
 * thinking. */
static enum result thinking_read(cJSON *body, struct generation_request *request,
                                 struct api_error *error)
{
    static const char *const efforts[] = {"none", "minimal", "low", "medium",
                                          "high", "xhigh",   "max"};
    const cJSON *reasoning = request_fields_member(body, "reasoning");
    const cJSON *item = reasoning ? request_fields_member(reasoning, "effort") : NULL;
    size_t i = 0;
    while (item && i < sizeof efforts / sizeof efforts[0] &&
           !(cJSON_IsString(item) && strcmp(item->valuestring, efforts[i]) == 0))
        i++;
    if (i == sizeof efforts / sizeof efforts[0])
        return api_error_invalid(error, "reasoning.effort",
                                 "reasoning.effort must be none, minimal, low, medium, high, xhigh "
                                 "or max");
    cJSON_DeleteItemFromObjectCaseSensitive(body, "reasoning_effort");
    if (item && !cJSON_AddStringToObject(body, "reasoning_effort", efforts[i]))
        return api_error_memory(error);
    enum result result = chat_request_read_thinking(body, request, error);
    if (result == RESULT_OK)
        result = chat_request_read_verbosity(body, request_fields_member(body, "text"),
                                             "text.verbosity", request, error);
    if (result == RESULT_OK && i > 0 && request->thinking == THINKING_UNSET)
        request->thinking = THINKING_ON;
    return result;
}

enum result responses_fields_read(cJSON *body, struct generation_request *request,
                                  struct responses_settings *settings, struct api_error *error)
{
    const char *truncation = text_of(body, "truncation");
    request->truncates = truncation && strcmp(truncation, "auto") == 0;
    enum result result = objects_check(body, error);
    for (size_t i = 0; i < sizeof word_fields / sizeof word_fields[0] && result == RESULT_OK; i++)
        result = word_field_check(body, &word_fields[i], error);
    if (result == RESULT_OK)
        result = strings_check(body, error);
    if (result == RESULT_OK)
        result = metadata_check(body, error);
    if (result == RESULT_OK)
        result = delivery_read(body, request, settings, error);
    if (result == RESULT_OK)
        result = counts_read(body, request, error);
    if (result == RESULT_OK)
        result = include_read(body, request, error);
    if (result == RESULT_OK)
        result = format_read(body, request, error);
    if (result == RESULT_OK)
        result = thinking_read(body, request, error);
    return result;
}

/* --- what the reply shows -------------------------------------------------------------------- */

static void json_write(const char *name, const cJSON *item, struct text_buffer *out)
{
    char *text = item ? cJSON_PrintUnformatted(item) : NULL;
    if (item && !text)
        out->failed = true;
    text_buffer_append_format(out, ",\"%s\":", name);
    text_buffer_append_text(out, text ? text : "null");
    free(text);
}

static void number_write(const char *name, const cJSON *body, float value, struct text_buffer *out)
{
    if (request_fields_member(body, name))
        json_write(name, request_fields_member(body, name), out);
    else
        text_buffer_append_format(out, ",\"%s\":%.6g", name, (double)value);
}

/* `shown`: a choice that is an object, as JSON; NULL: it is a word. */
static void choice_write(const struct generation_request *request, const char *shown,
                         struct text_buffer *out)
{
    static const char *const words[] = {[TOOL_CHOICE_AUTO] = "auto",
                                        [TOOL_CHOICE_NONE] = "none",
                                        [TOOL_CHOICE_REQUIRED] = "required"};
    text_buffer_append_text(out, ",\"tool_choice\":");
    if (shown)
        text_buffer_append_text(out, shown);
    else
        text_buffer_append_format(out, "\"%s\"", words[request->tool_choice]);
}

/* `generate_summary` is the API's older name. */
const char *responses_fields_summary(const cJSON *body)
{
    const cJSON *reasoning = request_fields_member(body, "reasoning");
    const char *summary = text_of(reasoning, "summary");
    return summary ? summary : text_of(reasoning, "generate_summary");
}

static void reasoning_write(const cJSON *body, struct text_buffer *out)
{
    const char *summary = responses_fields_summary(body);
    const char *effort = text_of(request_fields_member(body, "reasoning"), "effort");
    text_buffer_append_text(out, ",\"reasoning\":{\"effort\":");
    if (effort)
        text_buffer_append_format(out, "\"%s\"", effort);
    else
        text_buffer_append_text(out, "null");
    text_buffer_append_text(out, ",\"summary\":");
    if (summary)
        text_buffer_append_format(out, "\"%s\"}", summary);
    else
        text_buffer_append_text(out, "null}");
}

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

void responses_fields_write(const cJSON *body, const struct generation_request *request,
                            const struct responses_settings *settings, const char *model_id,
                            const struct responses_tools_shown *shown, struct text_buffer *out)
{
    static const char *const copied[] = {
        "instructions",     "max_output_tokens",      "max_tool_calls",    "previous_response_id",
        "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "user"};
    text_buffer_append_text(out, ",\"model\":");
    text_buffer_append_json_string(out, model_id, strlen(model_id));
    for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++)
        json_write(copied[i], request_fields_member(body, copied[i]), out);
    const cJSON *metadata = request_fields_member(body, "metadata");
    if (metadata)
        json_write("metadata", metadata, out);
    else
        text_buffer_append_text(out, ",\"metadata\":{}");
    number_write("temperature", body, request->sampling.temperature, out);
    number_write("top_p", body, request->sampling.top_p, out);
    text_buffer_append_format(out, ",\"top_logprobs\":%u", request->top_logprobs);
    text_buffer_append_format(out, ",\"background\":%s,\"store\":%s,\"parallel_tool_calls\":%s",
                              truth(request->background), truth(settings->store),
                              truth(!request->single_tool_call));
    choice_write(request, shown->choice, out);
    text_buffer_append_text(out, ",\"tools\":");
    text_buffer_append_text(out, shown->tools ? shown->tools : "[]");
    reasoning_write(body, out);
    const cJSON *text = request_fields_member(body, "text");
    const cJSON *format = text ? request_fields_member(text, "format") : NULL;
    const char *verbosity = text_of(text, "verbosity");
    text_buffer_append_format(out, ",\"text\":{\"verbosity\":\"%s\"",
                              verbosity ? verbosity : "medium");
    if (format)
        json_write("format", format, out);
    else
        text_buffer_append_text(out, ",\"format\":{\"type\":\"text\"}");
    text_buffer_append_format(out, "},\"truncation\":\"%s\"",
                              request->truncates ? "auto" : "disabled");
    text_buffer_append_text(out, ",\"service_tier\":\"default\""
                                 ",\"conversation\":null,\"prompt\":null");
}
