/*
 * Tags of reasoning as token ids.
 *
 * A worker knows no text, so where thinking begins and ends is told to it as the tokens that the
 * tags encode to, special tokens included. A tag whose text a model may cut into other tokens than
 * the tokenizer does is recognised in none but these; all published ones are of special tokens, or
 * are cut alike in the places where they stand.
 */
#include "frontend/api/forced_prepare.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static enum result tag_encode(const struct model_assets *assets, const char *tag,
                              struct token_list *tokens, uint32_t *added)
{
    const struct prompt_span span = {tag, strlen(tag), true};
    size_t before = tokens->count;
    enum result result =
        tokenizer_encode(assets->tokenizer, &span, 1, before + LIMIT_THINK_TOKENS, tokens);
    *added = (uint32_t)(tokens->count - before);
    return result;
}

static enum result budget_prepare(const struct model_assets *assets,
                                  const struct reasoning_format *reasoning,
                                  struct prepared_generation *prepared, struct api_error *error)
{
    struct forced_tokens *forced = &prepared->forced;
    struct token_list tokens = {0};
    enum result result =
        tag_encode(assets, reasoning->opening[0], &tokens, &forced->think_start_count);
    if (result == RESULT_OK)
        result = tag_encode(assets, reasoning->closing[0], &tokens, &forced->think_end_count);
    if (result != RESULT_OK || forced->think_end_count == 0) {
        token_list_fini(&tokens);
        *forced = (struct forced_tokens){0};
        if (result == RESULT_OUT_OF_MEMORY)
            return api_error_set(error, result, 500, NULL, "out of memory");
        return api_error_invalid(error, "thinking_budget",
                                 "the tags of reasoning cannot be told in at most %u tokens each",
                                 LIMIT_THINK_TOKENS);
    }
    forced->ids = tokens.ids;
    forced->thinking_open = prepared->reasoning_open;
    forced->has_thinking_budget = true;
    forced->thinking_budget = prepared->request.thinking_budget;
    return RESULT_OK;
}

/* An answer that the prompt has begun goes on where its own text left off. */
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
    if (!reasoning || request->thinking_budget == THINKING_BUDGET_NONE)
        return RESULT_OK;
    return budget_prepare(assets, reasoning, prepared, error);
}
