/*
 * Preparation of `shoal generate --raw`: the tokenizer's own beginning-of-text token where the
 * checkpoint wants one, then the prompt's tokens. The sampling fields go through the same reader as
 * a chat request's, so their ranges and defaults are the same. Refuses to read special tokens out
 * of the prompt: it is a user's text.
 */
#include "frontend/serve/raw_prepare.h"

#include "frontend/api/chat_request.h"
#include "frontend/api/raw_prompts.h"

enum result raw_prepare(const struct model_assets *assets, const char *body, size_t body_bytes,
                        const char *prompt, uint64_t random_seed,
                        struct prepared_generation *prepared, struct api_error *error)
{
    *prepared = (struct prepared_generation){0};
    enum result result =
        chat_request_parse(&(struct parse_context){.assets = assets, .random_seed = random_seed},
                           body, body_bytes, &prepared->request, error);
    if (result != RESULT_OK)
        return result;
    result = raw_prompts_encode_text(assets, prompt, &prepared->prompt);
    size_t count = prepared->prompt.count;
    if (result == RESULT_OUT_OF_MEMORY)
        result = api_error_set(error, result, 500, NULL, "out of memory");
    else if (result != RESULT_OK || count >= assets->context_tokens)
        result = api_error_set(error, RESULT_CONTEXT_EXCEEDED, 400, "context_length_exceeded",
                               "the prompt does not fit into the context of %u tokens",
                               assets->context_tokens);
    else if (count == 0)
        result = api_error_invalid(error, "prompt", "the prompt is empty");
    if (result != RESULT_OK) {
        prepared_generation_fini(prepared);
        return result;
    }
    uint32_t room = assets->context_tokens - (uint32_t)count;
    uint32_t asked = prepared->request.max_new_tokens;
    prepared->max_new_tokens = asked > 0 && asked < room ? asked : room;
    return RESULT_OK;
}
