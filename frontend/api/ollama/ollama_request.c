/*
 * Bodies are rewritten into chat completions and read by their reader. /api/generate becomes a chat
 * of `system` and `prompt`, or with `raw` or `suffix` a prompt without a template.
 *
 * A request without messages or without a prompt asks to load the model, which is loaded before any
 * request is read: it draws one token that is not sent, so that the answer comes only once a worker is ready.
 */
#include "frontend/api/ollama/ollama_request.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

#include "frontend/api/chat/chat_request.h"
#include "frontend/api/generation/field_table.h"
#include "frontend/api/generation/fim_tokens.h"
#include "frontend/api/generation/keep_alive.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/api/ollama/ollama_fields.h"
#include "frontend/api/ollama/ollama_messages.h"

/* --- a prompt without a template ------------------------------------------------------------- */

/* Takes over `prompt`. */
static enum result prompt_set(struct generation_request *request, cJSON *prompt,
                              struct api_error *error)
{
    cJSON *list = cJSON_CreateArray();
    cJSON_DeleteItemFromObjectCaseSensitive(request->body, "prompt");
    if (!prompt || !cJSON_AddItemToArray(list, prompt)) {
        cJSON_Delete(prompt);
        cJSON_Delete(list);
        return api_error_memory(error);
    }
    if (!cJSON_AddItemToObject(request->body, "prompt", list)) {
        cJSON_Delete(list);
        return api_error_memory(error);
    }
    request->prompts = list;
    return RESULT_OK;
}

/* Fields of a request without messages. */
static enum result raw_read(const struct parse_context *context, struct generation_request *request,
                            struct api_error *error)
{
    cJSON *body = request->body;
    bool present;
    int64_t most = 0, tops = 0;
    request->thinking_budget = THINKING_BUDGET_NONE;
    enum result result = field_table_refuse(body, FIELDS_COMPLETIONS, error);
    if (result == RESULT_OK)
        result = chat_request_read_stream(body, request, error);
    if (result == RESULT_OK)
        result = request_fields_read_integer(body, "max_tokens", 1, LIMIT_CONTEXT_TOKENS, &present,
                                             &most, error);
    request->max_new_tokens = (uint32_t)most;
    if (result == RESULT_OK)
        result = request_fields_read_bool(body, "logprobs", "logprobs", &request->logprobs, error);
    if (result == RESULT_OK)
        result = request_fields_read_integer(body, "top_logprobs", 0,
                                             request->logprobs ? LIMIT_TOP_LOGPROBS : 0, &present,
                                             &tops, error);
    request->top_logprobs = (uint32_t)tops;
    if (result == RESULT_OK)
        result = request_fields_read_ends(body, request, error);
    return result == RESULT_OK ? chat_request_read_settings(context, body, request, error) : result;
}

static enum result load_read(const struct parse_context *context,
                             struct generation_request *request, struct api_error *error)
{
    const double any = tokenizer_bos_token(context->assets->tokenizer) >= 0
                           ? tokenizer_bos_token(context->assets->tokenizer)
                           : 0;
    struct ollama_state *state = request->own.state;
    enum result result = raw_read(context, request, error);
    state->only_load = true;
    request->max_new_tokens = 1;
    request->min_tokens = 0;
    return result == RESULT_OK ? prompt_set(request, cJSON_CreateDoubleArray(&any, 1), error)
                               : result;
}

/* --- /api/chat ------------------------------------------------------------------------------- */

static enum result chat_read(const struct parse_context *context,
                             struct generation_request *request, struct api_error *error)
{
    cJSON *messages = cJSON_GetObjectItemCaseSensitive(request->body, "messages");
    if (!messages || cJSON_IsNull(messages) || (cJSON_IsArray(messages) && !messages->child))
        return load_read(context, request, error);
    enum result result = ollama_messages_rewrite(messages, error);
    return result == RESULT_OK ? chat_request_read(context, request, error) : result;
}

/* --- /api/generate --------------------------------------------------------------------------- */

static bool message_add(cJSON *messages, const char *role, cJSON *text)
{
    cJSON *message = cJSON_CreateObject();
    if (!cJSON_AddStringToObject(message, "role", role) ||
        !cJSON_AddItemToObject(message, "content", text)) {
        cJSON_Delete(text);
        cJSON_Delete(message);
        return false;
    }
    return cJSON_AddItemToArray(messages, message);
}

/* Makes a chat of `system` and `prompt`. */
static enum result conversation_make(cJSON *body, struct api_error *error)
{
    cJSON *system = cJSON_DetachItemFromObjectCaseSensitive(body, "system");
    cJSON *prompt = cJSON_DetachItemFromObjectCaseSensitive(body, "prompt");
    cJSON_DeleteItemFromObjectCaseSensitive(body, "messages");
    cJSON *messages = cJSON_AddArrayToObject(body, "messages");
    bool has_system = cJSON_IsString(system) && system->valuestring[0];
    if (!has_system) {
        cJSON_Delete(system);
        system = NULL;
    }
    bool good = !system || message_add(messages, "system", system);
    if (!good || !message_add(messages, "user", prompt ? prompt : cJSON_CreateString("")))
        return api_error_memory(error);
    return ollama_messages_take_images(body, cJSON_GetArrayItem(messages, has_system), "images",
                                       error);
}

static enum result texts_check(const cJSON *body, struct api_error *error)
{
    static const char *const names[] = {"prompt", "system", "suffix"};
    static const char *const refused[] = {"template", "context", NULL};
    for (size_t i = 0; i < 3; i++) {
        const cJSON *text = request_fields_member(body, names[i]);
        if (text && !cJSON_IsString(text))
            return api_error_invalid(error, names[i], "%s must be a string", names[i]);
    }
    return request_fields_refuse(body, refused, error);
}

static enum result raw_prompt_read(const struct parse_context *context, const char *suffix,
                                   struct generation_request *request, struct api_error *error)
{
    static const char *const refused[] = {"images", "system", NULL};
    const struct tokenizer *tokenizer = context->assets->tokenizer;
    struct fim_tokens tokens;
    enum result result = request_fields_refuse(request->body, refused, error);
    if (result == RESULT_OK && suffix && !fim_tokens_find(tokenizer, &tokens))
        result = fim_tokens_refuse(&tokens, "suffix", 400, error);
    if (result == RESULT_OK)
        result = raw_read(context, request, error);
    if (result != RESULT_OK)
        return result;
    cJSON *prompt = cJSON_DetachItemFromObjectCaseSensitive(request->body, "prompt");
    request->prompts_mixed = suffix != NULL;
    request->prompts_special = !suffix;
    if (!suffix)
        return prompt_set(request, prompt, error);
    cJSON *whole = fim_tokens_prompt(
        tokenizer, &tokens,
        &(struct fim_parts){.prefix = prompt ? prompt->valuestring : "", .suffix = suffix});
    cJSON_Delete(prompt);
    return prompt_set(request, whole, error);
}

static enum result generate_read(const struct parse_context *context,
                                 struct generation_request *request, struct api_error *error)
{
    cJSON *body = request->body;
    bool raw = false;
    enum result result = texts_check(body, error);
    if (result == RESULT_OK)
        result = request_fields_read_bool(body, "raw", "raw", &raw, error);
    if (result != RESULT_OK)
        return result;
    const char *prompt = cJSON_GetStringValue(request_fields_member(body, "prompt"));
    cJSON *suffix_item = cJSON_DetachItemFromObjectCaseSensitive(body, "suffix");
    const char *suffix = cJSON_GetStringValue(suffix_item);
    if (suffix && !suffix[0])
        suffix = NULL;
    if (!suffix && (!prompt || !prompt[0]) && !request_fields_member(body, "images")) {
        result = load_read(context, request, error);
    } else if (suffix || raw) {
        result = raw_prompt_read(context, suffix, request, error);
    } else {
        result = conversation_make(body, error);
        if (result == RESULT_OK)
            result = chat_request_read(context, request, error);
    }
    cJSON_Delete(suffix_item);
    return result;
}

/* --- both ------------------------------------------------------------------------------------ */

static enum result body_parse(const struct parse_context *context, bool generates, const char *json,
                              size_t json_bytes, struct generation_request *request,
                              struct api_error *error)
{
    struct ollama_state *state = calloc(1, sizeof *state);
    *request = (struct generation_request){0};
    if (!state)
        return api_error_memory(error);
    state->generates = generates;
    request->own = (struct format_state){.state = state, .destroy = free};
    enum result result = request_fields_read_body(json, json_bytes, &request->body, error);
    if (result == RESULT_OK)
        result = keep_alive_read(request->body, &request->keeps, &request->keep_ms, error);
    if (result == RESULT_OK)
        result = ollama_fields_rewrite(context, request->body, error);
    if (result == RESULT_OK)
        result = request_fields_check_model(request->body, context->assets, error);
    if (result == RESULT_OK)
        result =
            generates ? generate_read(context, request, error) : chat_read(context, request, error);
    if (result != RESULT_OK)
        generation_request_fini(request);
    return result;
}

enum result ollama_request_parse_chat(const struct parse_context *context, const char *json,
                                      size_t json_bytes, struct generation_request *request,
                                      struct api_error *error)
{
    return body_parse(context, false, json, json_bytes, request, error);
}

enum result ollama_request_parse_generate(const struct parse_context *context, const char *json,
                                          size_t json_bytes, struct generation_request *request,
                                          struct api_error *error)
{
    return body_parse(context, true, json, json_bytes, request, error);
}
