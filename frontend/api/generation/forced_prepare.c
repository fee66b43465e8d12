/*
 * Finds the tags of reasoning as token ids.
 *
 * A worker has no tokenizer, so it is told as tokens where thinking begins and ends, special tokens
 * included. If a model writes a tag with other tokens than the
 * tokenizer's, the tag is not recognized; in all published models tags are special tokens, or are
 * always split the same way.
 *
 * A thinking budget needs the tags, and so does a grammar that begins after reasoning.
 */
#include "frontend/api/generation/forced_prepare.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static enum result text_encode(const struct model_assets *assets, const char *text, size_t length,
                               size_t max_tokens, struct token_list *tokens, uint32_t *added)
{
    const struct prompt_span span = {text, length, true};
    size_t before = tokens->count;
    enum result result =
        tokenizer_encode(assets->tokenizer, &span, 1, before + max_tokens, NULL, tokens);
    *added = (uint32_t)(tokens->count - before);
    return result;
}

static enum result encode_error(enum result result, const char *parameter, unsigned max_tokens,
                                struct api_error *error)
{
    if (result == RESULT_OUT_OF_MEMORY)
        return api_error_memory(error);
    return api_error_invalid(error, parameter, "what it forces takes more than %u tokens",
                             max_tokens);
}

/* A required call begins with the grammar, which only known formats have. */
static enum result required_check(const struct generation_request *request, struct api_error *error)
{
    bool required =
        request->tool_choice == TOOL_CHOICE_REQUIRED || request->tool_choice == TOOL_CHOICE_NAMED;
    if (!required || !request->tools || request->grammar)
        return RESULT_OK;
    return api_error_invalid(error, "tool_choice",
                             "the form in which this model calls tools is not known: no call can "
                             "be required of it, only 'auto' and 'none' can be had");
}

static enum result tags_encode(const struct model_assets *assets,
                               const struct reasoning_format *reasoning,
                               struct forced_tokens *forced, struct token_list *tokens,
                               struct api_error *error)
{
    const char *opening = reasoning->opening[0];
    const char *closing = reasoning->closing[0];
    enum result result = text_encode(assets, opening, strlen(opening), LIMIT_THINK_TOKENS, tokens,
                                     &forced->think_start_count);
    if (result == RESULT_OK)
        result = text_encode(assets, closing, strlen(closing), LIMIT_THINK_TOKENS, tokens,
                             &forced->think_end_count);
    return result == RESULT_OK ? RESULT_OK
                               : encode_error(result, "thinking_budget", LIMIT_THINK_TOKENS, error);
}

static enum result tokens_prepare(const struct model_assets *assets,
                                  const struct reasoning_format *reasoning,
                                  struct prepared_generation *prepared, struct api_error *error)
{
    struct forced_tokens *forced = &prepared->forced;
    struct token_list tokens = {0};
    bool has_budget = reasoning && prepared->request.thinking_budget != THINKING_BUDGET_NONE;
    enum result result = required_check(&prepared->request, error);
    bool follows = reasoning && prepared->request.grammar &&
                   prepared->request.grammar_start == GRAMMAR_AFTER_REASONING;
    if (result == RESULT_OK && (has_budget || follows))
        result = tags_encode(assets, reasoning, forced, &tokens, error);
    if (result != RESULT_OK) {
        token_list_fini(&tokens);
        *forced = (struct forced_tokens){0};
        return result;
    }
    forced->ids = tokens.ids;
    forced->thinking_open = prepared->reasoning_open && (has_budget || follows);
    forced->has_thinking_budget = has_budget;
    forced->thinking_budget = has_budget ? prepared->request.thinking_budget : 0;
    return RESULT_OK;
}

/* True if the answer starts inside reasoning. An answer that the prompt has begun continues in the
 * state of its own text. */
static bool starts_open(const struct reasoning_format *reasoning,
                        const struct generation_request *request, const struct chat_prompt *prompt)
{
    if (reasoning_format_is_open(reasoning, prompt->text, prompt->text_bytes))
        return true;
    if (!request->continue_final_message)
        return false;
    const cJSON *last =
        cJSON_GetArrayItem(request->messages, cJSON_GetArraySize(request->messages) - 1);
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(last, "content"));
    return text && reasoning_format_is_open_after(reasoning, false, text, strlen(text));
}

enum result forced_prepare(const struct model_assets *assets, const struct chat_prompt *prompt,
                           struct prepared_generation *prepared, struct api_error *error)
{
    const struct generation_request *request = &prepared->request;
    struct reasoning_format custom;
    const struct reasoning_format *reasoning = assets->formats.reasoning;
    if (request->thinking_start || request->thinking_end) {
        if (reasoning_format_set_custom(&custom, reasoning, request->thinking_start,
                                        request->thinking_end) != RESULT_OK)
            return api_error_invalid(
                error, request->thinking_start ? "thinking_start_token" : "thinking_end_token",
                "tags of reasoning have 1 to %u bytes, and cannot be set where the model's answers "
                "are in the harmony format",
                LIMIT_REASONING_TAG_BYTES);
        reasoning = &custom;
    }
    prepared->reasoning_open = starts_open(reasoning, request, prompt);
    return tokens_prepare(assets, reasoning, prepared, error);
}
