/*
 * All shapes of an input become a list of prompts. Texts get the checkpoint's text before them
 * (prompt_name) and its first and last tokens; lists of token ids are taken as they are. The text of
 * a special token in an input is text.
 */
#include "frontend/api/pooling/embedding_request.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/field_table.h"
#include "frontend/api/generation/keep_alive.h"
#include "frontend/api/generation/request_fields.h"
#include "frontend/assets/pooling_assets.h"

#define LARGEST_NORM      1024
#define PROMPT_NAME_BYTES 256u

/* --- inputs ---------------------------------------------------------------------------------- */

static enum result input_refuse(const char *name, struct api_error *error)
{
    return api_error_invalid(error, name,
                             "%s must be a string, a list of strings, a list of token ids or a "
                             "list of these",
                             name);
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

/* Puts `before` before each text. */
static enum result texts_begin(cJSON *list, const char *before, struct api_error *error)
{
    if (!before[0])
        return RESULT_OK;
    for (cJSON *item = list->child; item; item = item->next) {
        if (!cJSON_IsString(item))
            continue;
        struct text_buffer text = {0};
        text_buffer_append_text(&text, before);
        text_buffer_append_text(&text, item->valuestring);
        text_buffer_append(&text, "", 1);
        const char *set = text.failed ? NULL : cJSON_SetValuestring(item, text.bytes);
        text_buffer_fini(&text);
        if (!set)
            return api_error_memory(error);
    }
    return RESULT_OK;
}

/* Moves the field `name` into request->prompts. `one`: lists are not allowed. */
static enum result inputs_take(const char *name, bool one, struct generation_request *request,
                               struct api_error *error)
{
    cJSON *body = request->body;
    cJSON *given = cJSON_GetObjectItemCaseSensitive(body, name);
    bool numbers = false;
    if (!given || cJSON_IsNull(given))
        return api_error_invalid(error, name, "%s is missing", name);
    if (!cJSON_IsString(given) && (one || !cJSON_IsArray(given)))
        return one ? api_error_invalid(error, name, "%s must be a string", name)
                   : input_refuse(name, error);
    bool wraps = cJSON_IsString(given) || (list_is_flat(given, &numbers) && numbers);
    cJSON *list = cJSON_DetachItemViaPointer(body, given);
    if (wraps) {
        cJSON *outer = cJSON_CreateArray();
        if (!cJSON_AddItemToArray(outer, list)) {
            cJSON_Delete(list);
            cJSON_Delete(outer);
            return api_error_memory(error);
        }
        list = outer;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(body, "prompts");
    if (!cJSON_AddItemToObject(body, "prompts", list)) {
        cJSON_Delete(list);
        return api_error_memory(error);
    }
    uint32_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item) && !(cJSON_IsArray(item) && list_is_flat(item, &numbers)))
            return input_refuse(name, error);
        if (++count > LIMIT_INPUTS)
            return api_error_invalid(error, name, "more than %u inputs", LIMIT_INPUTS);
    }
    if (count == 0)
        return api_error_invalid(error, name, "%s must not be empty", name);
    request->prompts = list;
    return RESULT_OK;
}

/* --- what all bodies have -------------------------------------------------------------------- */

/* The text that `prompt_name` names, or the default. */
static enum result prompt_read(const struct parse_context *context,
                               struct generation_request *request, struct api_error *error)
{
    const struct pooling_assets *pools = context->assets->pools;
    const char *name;
    enum result result =
        request_fields_read_string(request->body, "prompt_name", PROMPT_NAME_BYTES, &name, error);
    if (result != RESULT_OK)
        return result;
    const char *before = pooling_assets_prompt(pools, name);
    if (!before)
        return api_error_invalid(error, "prompt_name",
                                 "the model has no prompt of that name; it has: %.300s",
                                 pooling_assets_prompt_names(pools));
    return texts_begin(request->prompts, before, error);
}

static enum result dimensions_read(const cJSON *body, struct embedding_state *state,
                                   struct api_error *error)
{
    bool present;
    int64_t dimensions = 0;
    enum result result = request_fields_read_integer(body, "dimensions", 1, LIMIT_HIDDEN, &present,
                                                     &dimensions, error);
    state->form.dimensions = (uint32_t)dimensions;
    return result;
}

/* Numbers or base64. */
static enum result encoding_read(const cJSON *body, struct embedding_state *state,
                                 struct api_error *error)
{
    const char *format;
    enum result result = request_fields_read_string(body, "encoding_format", 64, &format, error);
    if (result != RESULT_OK || !format)
        return result;
    state->form.base64 = strcmp(format, "base64") == 0;
    return state->form.base64 || strcmp(format, "float") == 0
               ? RESULT_OK
               : api_error_invalid(error, "encoding_format",
                                   "The format to return the embeddings in. Can be either float "
                                   "or base64");
}

static enum result pools_check(const struct parse_context *context, struct api_error *error)
{
    if (context->assets->classifies)
        return api_error_set(
            error, RESULT_UNSUPPORTED, 400, "embeddings_unsupported",
            "this model is a cross-encoder, which gives no embeddings: use /rerank "
            "or /score");
    if (context->assets->pooling != POOLING_OFF)
        return RESULT_OK;
    return api_error_set(error, RESULT_UNSUPPORTED, 501, "embeddings_unsupported",
                         "this model is served for text and gives no embeddings: start the "
                         "server with --pooling");
}

/* For APIs whose answer has one vector for each input. */
static enum result single_check(const struct parse_context *context, struct api_error *error)
{
    if (context->assets->pooling != POOLING_TOKENS)
        return RESULT_OK;
    return api_error_invalid(error, "",
                             "with --pooling none every token has a vector, which this API "
                             "cannot return: use /embeddings");
}

static void request_fill(struct generation_request *request)
{
    request->pools = true;
    request->choices = 1;
    request->max_new_tokens = 1;
    request->ignore_end = true;
    request->sampling = sampling_params_default();
    request->thinking_budget = THINKING_BUDGET_NONE;
}

/* --- the APIs -------------------------------------------------------------------------------- */

/* vLLM's truncate_prompt_tokens: keeps the first ones; -1: as many as the context has. */
static enum result truncation_read(const struct parse_context *context,
                                   struct generation_request *request, struct api_error *error)
{
    bool present;
    int64_t most = 0;
    uint32_t context_tokens = context->assets->context_tokens - 1;
    enum result result = request_fields_read_integer(request->body, "truncate_prompt_tokens", -1,
                                                     context_tokens, &present, &most, error);
    request->input_tokens = most < 0 ? context_tokens : (uint32_t)most;
    return result;
}

static enum result openai_read(const struct parse_context *context,
                               struct generation_request *request, struct api_error *error)
{
    const cJSON *body = request->body;
    struct embedding_state *state = request->own.state;
    const char *user;
    enum result result = single_check(context, error);
    if (result == RESULT_OK)
        result = request_fields_read_string(body, "user", 1u << 16, &user, error);
    if (result == RESULT_OK)
        result = encoding_read(body, state, error);
    if (result == RESULT_OK)
        result = dimensions_read(body, state, error);
    if (result == RESULT_OK)
        result = truncation_read(context, request, error);
    if (result == RESULT_OK)
        result = inputs_take("input", false, request, error);
    bool normalizes =
        pooling_assets_normalizes(context->assets->pools) || state->form.dimensions > 0;
    state->form.norm = normalizes ? VECTOR_NORM_EUCLIDEAN : VECTOR_NORM_NONE;
    return result;
}

/* Every token's vector is given as the model has it. */
static enum result llama_read(const struct parse_context *context,
                              struct generation_request *request, struct api_error *error)
{
    const cJSON *body = request->body;
    struct embedding_state *state = request->own.state;
    bool present;
    int64_t norm = VECTOR_NORM_EUCLIDEAN;
    enum result result = request_fields_read_integer(body, "embd_normalize", -1, LARGEST_NORM,
                                                     &present, &norm, error);
    state->form.norm = (int)norm;
    if (context->assets->pooling == POOLING_TOKENS)
        state->form.norm = VECTOR_NORM_NONE;
    if (result == RESULT_OK)
        result = encoding_read(body, state, error);
    const char *name = request_fields_member(body, "input") ? "input" : "content";
    if (result == RESULT_OK)
        result = inputs_take(name, false, request, error);
    request->prompts_mixed = request->prompts_special = true;
    return result;
}

/* Ollama names a model "name:latest" if no tag is given. */
static void tag_strip(cJSON *body)
{
    static const char tag[] = ":latest";
    cJSON *model = cJSON_GetObjectItemCaseSensitive(body, "model");
    size_t length = cJSON_IsString(model) ? strlen(model->valuestring) : 0;
    if (length > strlen(tag) && strcmp(model->valuestring + length - strlen(tag), tag) == 0)
        model->valuestring[length - strlen(tag)] = '\0';
}

/* Nothing to embed: one token whose vector is not shown, so that the answer comes once a worker is
 * ready. */
static enum result nothing_read(struct generation_request *request, struct api_error *error)
{
    struct embedding_state *state = request->own.state;
    const int any = 0;
    cJSON *list = cJSON_CreateArray();
    cJSON_AddItemToArray(list, cJSON_CreateIntArray(&any, 1));
    cJSON_DeleteItemFromObjectCaseSensitive(request->body, "prompts");
    if (!list || !list->child || !cJSON_AddItemToObject(request->body, "prompts", list)) {
        cJSON_Delete(list);
        return api_error_memory(error);
    }
    request->prompts = list;
    state->empty = true;
    return RESULT_OK;
}

static bool is_empty(const cJSON *input)
{
    return !input || (cJSON_IsString(input) && !input->valuestring[0]) ||
           (cJSON_IsArray(input) && !input->child);
}

static enum result ollama_read(const struct parse_context *context,
                               struct generation_request *request, bool old,
                               struct api_error *error)
{
    cJSON *body = request->body;
    struct embedding_state *state = request->own.state;
    const char *name = old ? "prompt" : "input";
    const cJSON *options = request_fields_member(body, "options");
    bool truncates = true;
    if (options && !cJSON_IsObject(options))
        return api_error_invalid(error, "options", "options must be an object");
    enum result result = keep_alive_read(body, &request->keeps, &request->keep_ms, error);
    if (result == RESULT_OK)
        result = request_fields_read_bool(body, "truncate", "truncate", &truncates, error);
    if (result == RESULT_OK && !request_fields_member(body, "truncate"))
        truncates = true;
    if (result == RESULT_OK && !old)
        result = dimensions_read(body, state, error);
    if (result == RESULT_OK)
        result = single_check(context, error);
    if (result != RESULT_OK)
        return result;
    request->input_tokens = truncates ? context->assets->context_tokens - 1 : 0;
    state->form.norm = old ? VECTOR_NORM_NONE : VECTOR_NORM_EUCLIDEAN;
    return is_empty(request_fields_member(body, name)) ? nothing_read(request, error)
                                                       : inputs_take(name, old, request, error);
}

enum body_kind { BODY_OPENAI, BODY_LLAMA, BODY_OLLAMA, BODY_OLLAMA_OLD };

static const char *const known_fields[][9] = {
    [BODY_OPENAI] = {"model", "input", "encoding_format", "dimensions", "user",
                     "truncate_prompt_tokens", "prompt_name"},
    [BODY_LLAMA] = {"model", "input", "content", "embd_normalize", "encoding_format",
                    "prompt_name"},
    [BODY_OLLAMA] = {"model", "input", "truncate", "dimensions", "options", "keep_alive",
                     "prompt_name"},
    [BODY_OLLAMA_OLD] = {"model", "prompt", "truncate", "options", "keep_alive", "prompt_name"},
};

static enum result body_read(const struct parse_context *context, enum body_kind kind,
                             struct generation_request *request, struct api_error *error)
{
    enum result result = pools_check(context, error);
    if (result != RESULT_OK)
        return result;
    switch (kind) {
    case BODY_OPENAI: result = openai_read(context, request, error); break;
    case BODY_LLAMA: result = llama_read(context, request, error); break;
    default: result = ollama_read(context, request, kind == BODY_OLLAMA_OLD, error); break;
    }
    return result == RESULT_OK ? prompt_read(context, request, error) : result;
}

static enum result body_parse(const struct parse_context *context, enum body_kind kind,
                              const char *json, size_t json_bytes,
                              struct generation_request *request, struct api_error *error)
{
    struct embedding_state *state = calloc(1, sizeof *state);
    *request = (struct generation_request){0};
    if (!state)
        return api_error_memory(error);
    request->own = (struct format_state){.state = state, .destroy = free};
    request_fill(request);
    enum result result = request_fields_read_body(json, json_bytes, &request->body, error);
    if (result == RESULT_OK && (kind == BODY_OLLAMA || kind == BODY_OLLAMA_OLD))
        tag_strip(request->body);
    if (result == RESULT_OK)
        result = request_fields_check_model(request->body, context->assets, error);
    if (result == RESULT_OK)
        result = field_watch_check(context->fields, request->body, known_fields[kind], error);
    if (result == RESULT_OK)
        result = body_read(context, kind, request, error);
    if (result != RESULT_OK)
        generation_request_fini(request);
    return result;
}

enum result embedding_request_parse_openai(const struct parse_context *context, const char *json,
                                           size_t json_bytes, struct generation_request *request,
                                           struct api_error *error)
{
    return body_parse(context, BODY_OPENAI, json, json_bytes, request, error);
}

enum result embedding_request_parse_llama(const struct parse_context *context, const char *json,
                                          size_t json_bytes, struct generation_request *request,
                                          struct api_error *error)
{
    return body_parse(context, BODY_LLAMA, json, json_bytes, request, error);
}

enum result embedding_request_parse_ollama(const struct parse_context *context, const char *json,
                                           size_t json_bytes, struct generation_request *request,
                                           struct api_error *error)
{
    return body_parse(context, BODY_OLLAMA, json, json_bytes, request, error);
}

enum result embedding_request_parse_ollama_old(const struct parse_context *context,
                                               const char *json, size_t json_bytes,
                                               struct generation_request *request,
                                               struct api_error *error)
{
    return body_parse(context, BODY_OLLAMA_OLD, json, json_bytes, request, error);
}
