/*
 * Special tokens that spell marks, found by their text.
 *
 * A mark need not be one token (Gemma 4 opens a thought with <|channel> and a word), so every
 * special token whose text occurs in a mark counts. False matches are not a concern: special tokens
 * do not spell common words.
 */
#include "frontend/reply/mark_tokens.h"

#include "frontend/reply/harmony_parser.h"
#include "frontend/reply/mark_matcher.h"
#include "proto/limits.h"

static bool is_mark(const struct reasoning_format *reasoning, const struct tool_format *tools,
                    const char *text, size_t length)
{
    if (tools && tool_format_has_mark(tools, text, length))
        return true;
    if (!reasoning)
        return false;
    if (reasoning->joint)
        return mark_list_contains(harmony_marks, HARMONY_MARK_COUNT, text, length);
    return mark_list_contains(reasoning->opening, REASONING_TAGS, text, length) ||
           mark_list_contains(reasoning->closing, REASONING_TAGS, text, length) ||
           mark_list_contains(reasoning->frames, REASONING_TAGS, text, length);
}

enum result mark_tokens_find(const struct tokenizer *tokenizer,
                             const struct reasoning_format *reasoning,
                             const struct tool_format *tools, struct token_list *list)
{
    enum result result = RESULT_OK;
    uint32_t count = tokenizer_vocab_tokens(tokenizer);
    for (uint32_t id = 0; result == RESULT_OK && id < count; id++) {
        const char *text;
        size_t length;
        if (!tokenizer_is_special(tokenizer, id))
            continue;
        tokenizer_token_bytes(tokenizer, id, &text, &length);
        if (length > 0 && is_mark(reasoning, tools, text, length))
            result = token_list_append(list, &id, 1, LIMIT_VOCAB_TOKENS);
    }
    return result;
}
