/*
 * Encodes one prompt after the other; an error names the prompt's place in the body's list.
 */
#include "frontend/api/generation/raw_prompts.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/generation/context_error.h"
#include "proto/limits.h"

/* True if the text begins with the bos token as the client wrote it. */
static bool has_bos(const struct model_assets *assets, const char *text)
{
    size_t length = strlen(assets->bos_text);
    return length > 0 && strncmp(text, assets->bos_text, length) == 0;
}

/* Encodes into an empty list. RESULT_TOO_LARGE: more tokens than are counted. */
static enum result text_encode(const struct parse_context *context, const char *text, bool special,
                               struct token_list *tokens)
{
    const struct model_assets *assets = context->assets;
    int32_t bos = tokenizer_bos_token(assets->tokenizer);
    if (tokenizer_adds_bos(assets->tokenizer) && bos >= 0 && !(special && has_bos(assets, text))) {
        tokens->ids = malloc(sizeof *tokens->ids);
        if (!tokens->ids)
            return RESULT_OUT_OF_MEMORY;
        tokens->capacity = tokens->count = 1;
        tokens->ids[0] = (uint32_t)bos;
    }
    struct prompt_span span = {.text = text, .text_bytes = strlen(text), .trusted = special};
    return tokenizer_encode(assets->tokenizer, &span, 1, LIMIT_CONTEXT_TOKENS, context->cancelled,
                            tokens);
}

static enum result id_add(uint32_t id, struct token_list *tokens)
{
    if (tokens->count == tokens->capacity) {
        size_t capacity = tokens->capacity > 0 ? 2 * tokens->capacity : 64;
        uint32_t *ids = realloc(tokens->ids, capacity * sizeof *ids);
        if (!ids)
            return RESULT_OUT_OF_MEMORY;
        tokens->ids = ids;
        tokens->capacity = capacity;
    }
    tokens->ids[tokens->count++] = id;
    return RESULT_OK;
}

/* A text inside a list of ids: nothing is added to it, unless it comes first. */
static enum result mixed_text_add(const struct parse_context *context, const cJSON *item,
                                  bool first, bool special, struct token_list *tokens)
{
    if (first)
        return text_encode(context, item->valuestring, special, tokens);
    struct prompt_span span = {
        .text = item->valuestring, .text_bytes = strlen(item->valuestring), .trusted = special};
    return tokenizer_encode(context->assets->tokenizer, &span, 1, LIMIT_CONTEXT_TOKENS,
                            context->cancelled, tokens);
}

static enum result ids_take(const struct parse_context *context,
                            const struct generation_request *request, const cJSON *list,
                            const char *place, struct token_list *tokens, struct api_error *error)
{
    const struct model_assets *assets = context->assets;
    uint32_t vocab_tokens = tokenizer_vocab_tokens(assets->tokenizer);
    size_t count = 0;
    const cJSON *item;
    for (item = list->child; item; item = item->next)
        count++;
    if (count >= assets->context_tokens)
        return context_error_set(error, place,
                                 &(struct context_overflow){.prompt_tokens = count,
                                                            .most_tokens = assets->context_tokens});
    cJSON_ArrayForEach(item, list)
    {
        enum result result;
        double id = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (request->prompts_mixed && cJSON_IsString(item))
            result = mixed_text_add(context, item, item == list->child, request->prompts_special,
                                    tokens);
        else if (!(id >= 0 && id < vocab_tokens && floor(id) == id))
            return api_error_invalid(error, place, "a token id must be an integer below %u",
                                     vocab_tokens);
        else
            result = id_add((uint32_t)id, tokens);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

/* The whole of a text of which the vector is wanted. */
static enum result input_encode(const struct parse_context *context,
                                const struct generation_request *request, const char *text,
                                struct token_list *tokens)
{
    int32_t tail = tokenizer_tail_token(context->assets->tokenizer);
    enum result result = text_encode(context, text, request->prompts_special, tokens);
    if (result == RESULT_OK && request->pools && tail >= 0)
        result = id_add((uint32_t)tail, tokens);
    if (result == RESULT_OK && request->input_tokens > 0 && tokens->count > request->input_tokens) {
        tokens->count = request->input_tokens;
        if (tail >= 0)
            tokens->ids[tokens->count - 1] = (uint32_t)tail;
    }
    return result;
}

static enum result one_encode(const struct parse_context *context,
                              const struct generation_request *request, const cJSON *prompt,
                              const char *place, struct token_list *tokens, struct api_error *error)
{
    const struct model_assets *assets = context->assets;
    error->status = 0;
    enum result result = cJSON_IsString(prompt)
                             ? input_encode(context, request, prompt->valuestring, tokens)
                             : ids_take(context, request, prompt, place, tokens, error);
    if (error->status != 0)
        return result;
    if (result == RESULT_OUT_OF_MEMORY)
        return api_error_memory(error);
    if (result == RESULT_CANCELLED)
        return api_error_set(error, result, 503, NULL, "the request was cancelled");
    if (result == RESULT_OK && tokens->count == 0)
        return api_error_invalid(error, place, "the prompt is empty");
    if (result == RESULT_OK && request->pools && assets->pooling == POOLING_TOKENS &&
        tokens->count > LIMIT_VECTOR_TOKENS)
        return api_error_invalid(error, place, "%zu tokens; vectors are given of at most %u",
                                 (size_t)tokens->count, LIMIT_VECTOR_TOKENS);
    if (result == RESULT_OK && tokens->count < assets->context_tokens)
        return RESULT_OK;
    return context_error_set(error, place,
                             &(struct context_overflow){.prompt_tokens = tokens->count,
                                                        .most_tokens = assets->context_tokens,
                                                        .at_least = result != RESULT_OK});
}

enum result raw_prompts_encode(const struct parse_context *context,
                               struct prepared_generation *prepared, struct api_error *error)
{
    const cJSON *prompts = prepared->request.prompts;
    uint32_t count = (uint32_t)cJSON_GetArraySize(prompts);
    prepared->more_prompts = calloc(count, sizeof *prepared->more_prompts);
    if (!prepared->more_prompts)
        return api_error_memory(error);
    prepared->more_prompt_count = count - 1;
    uint32_t index = 0;
    const cJSON *prompt;
    cJSON_ArrayForEach(prompt, prompts)
    {
        char place[32];
        const char *name = prepared->request.pools ? "input" : "prompt";
        snprintf(place, sizeof place, count > 1 ? "%s[%u]" : "%s", name, index);
        struct token_list *tokens =
            index == 0 ? &prepared->prompt : &prepared->more_prompts[index - 1];
        enum result result = one_encode(context, &prepared->request, prompt, place, tokens, error);
        if (result != RESULT_OK)
            return result;
        index++;
    }
    return RESULT_OK;
}
