/*
 * Reads the body of a completions request. The four shapes of a prompt (a text, a list of texts,
 * token ids, a list of these) become one: a list of prompts.
 *
 * `echo` with `logprobs` asks for the log-probabilities of the prompt, too. The default length is the
 * official one, 16 tokens.
 */
#include "frontend/api/chat/completions_request.h"

#include <cjson/cJSON.h>

#include "frontend/api/chat/chat_request.h"
#include "frontend/api/generation/field_table.h"
#include "frontend/api/generation/fim_tokens.h"
#include "frontend/api/generation/request_fields.h"

#define DEFAULT_MAX_TOKENS 16

static enum result refuse_prompt(struct api_error *error)
{
    return api_error_invalid(error, "prompt",
                             "prompt must be a string, a list of strings, a list of token ids or a "
                             "list of these");
}

static enum result prompt_read(cJSON *body, struct generation_request *request,
                               struct api_error *error)
{
    cJSON *prompt = cJSON_GetObjectItemCaseSensitive(body, "prompt");
    if (!cJSON_IsArray(prompt) && !cJSON_IsString(prompt))
        return refuse_prompt(error);
    if (cJSON_IsString(prompt) || cJSON_IsNumber(prompt->child)) {
        cJSON *list = cJSON_CreateArray();
        cJSON *one = cJSON_DetachItemViaPointer(body, prompt);
        if (!list || !cJSON_AddItemToArray(list, one) ||
            !cJSON_AddItemToObject(body, "prompt", list))
            return api_error_memory(error);
        prompt = list;
    }
    const cJSON *first = prompt->child;
    uint32_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, prompt)
    {
        if (!(cJSON_IsString(first) ? cJSON_IsString(item) : cJSON_IsArray(item)))
            return refuse_prompt(error);
        if (++count > LIMIT_PROMPTS)
            return api_error_invalid(error, "prompt", "more than %u prompts", LIMIT_PROMPTS);
    }
    if (count == 0)
        return api_error_invalid(error, "prompt", "the prompt is empty");
    request->prompts = prompt;
    return RESULT_OK;
}

static enum result counts_read(const cJSON *body, struct generation_request *request,
                               struct api_error *error)
{
    const struct {
        const char *name;
        int64_t least;
        int64_t most;
        int64_t usual;
        uint32_t *value;
    } fields[] = {
        {"n", 1, LIMIT_CHOICES, 1, &request->choices},
        {"max_tokens", 0, LIMIT_CONTEXT_TOKENS, DEFAULT_MAX_TOKENS, &request->max_new_tokens},
        {"logprobs", 0, LIMIT_TOP_LOGPROBS, 0, &request->top_logprobs},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        bool present;
        int64_t value = fields[i].usual;
        enum result result =
            request_fields_read_integer(body, fields[i].name, (double)fields[i].least,
                                        (double)fields[i].most, &present, &value, error);
        if (result != RESULT_OK)
            return result;
        *fields[i].value = (uint32_t)value;
    }
    request->logprobs = request_fields_member(body, "logprobs") != NULL;
    request->no_answer = request->max_new_tokens == 0;
    if (request->no_answer)
        request->max_new_tokens = 1;
    return request_fields_read_ends(body, request, error);
}

static enum result others_check(const cJSON *body, struct generation_request *request,
                                struct api_error *error)
{
    enum result result = request_fields_read_bool(body, "echo", "echo", &request->echo, error);
    if (result != RESULT_OK)
        return result;
    result = chat_request_read_prompt_logprobs(body, request, error);
    if (result != RESULT_OK)
        return result;
    if (request->echo && request->logprobs) {
        request->scores_prompt = true;
        if (request->top_logprobs > request->top_prompt_logprobs)
            request->top_prompt_logprobs = request->top_logprobs;
    }
    const cJSON *best_of = request_fields_member(body, "best_of");
    if (best_of && !(cJSON_IsNumber(best_of) && best_of->valuedouble == request->choices))
        return api_error_invalid(error, "best_of", "best_of is not supported: use n");
    return RESULT_OK;
}

/* The answer goes between each prompt and `suffix`. */
static enum result suffix_read(const struct parse_context *context, const cJSON *body,
                               struct generation_request *request, struct api_error *error)
{
    const struct tokenizer *tokenizer = context->assets->tokenizer;
    const cJSON *suffix = request_fields_member(body, "suffix");
    struct fim_tokens tokens;
    if (!suffix || (cJSON_IsString(suffix) && !suffix->valuestring[0]))
        return RESULT_OK;
    if (!cJSON_IsString(suffix))
        return api_error_invalid(error, "suffix", "suffix must be a string");
    if (!fim_tokens_find(tokenizer, &tokens))
        return fim_tokens_refuse(&tokens, "suffix", 400, error);
    if (request->echo)
        return api_error_invalid(error, "echo", "echo and suffix cannot be combined");
    for (cJSON *prompt = request->prompts->child; prompt; prompt = prompt->next) {
        if (!cJSON_IsString(prompt))
            return api_error_invalid(error, "suffix", "a prompt before a suffix must be a text");
        cJSON *whole = fim_tokens_prompt(
            tokenizer, &tokens,
            &(struct fim_parts){.prefix = prompt->valuestring, .suffix = suffix->valuestring});
        if (!whole || !cJSON_ReplaceItemViaPointer(request->prompts, prompt, whole)) {
            cJSON_Delete(whole);
            return api_error_memory(error);
        }
        prompt = whole;
    }
    request->prompts_mixed = true;
    return RESULT_OK;
}

enum result completions_request_parse(const struct parse_context *context, const char *json,
                                      size_t json_bytes, struct generation_request *request,
                                      struct api_error *error)
{
    const struct model_assets *assets = context->assets;
    *request = (struct generation_request){.thinking_budget = THINKING_BUDGET_NONE};
    enum result result = request_fields_read_body(json, json_bytes, &request->body, error);
    if (result == RESULT_OK)
        result = request_fields_check_model(request->body, assets, error);
    if (result == RESULT_OK)
        result = field_table_check(request->body, FIELDS_COMPLETIONS, context->fields, error);
    if (result == RESULT_OK)
        result = chat_request_read_stream(request->body, request, error);
    if (result == RESULT_OK)
        result = counts_read(request->body, request, error);
    if (result == RESULT_OK)
        result = others_check(request->body, request, error);
    if (result == RESULT_OK)
        result = chat_request_read_settings(context, request->body, request, error);
    if (result == RESULT_OK)
        result = prompt_read(request->body, request, error);
    if (result == RESULT_OK)
        result = suffix_read(context, request->body, request, error);
    if (result != RESULT_OK)
        generation_request_fini(request);
    return result;
}
