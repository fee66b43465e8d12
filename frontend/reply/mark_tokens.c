/*
 * Special tokens that spell marks, found by their text.
 *
 * A mark need not be one token (Gemma 4 opens a thought with <|channel> and the word), so every
 * special token whose text stands within a mark counts. There are no others to confuse them with:
 * special tokens do not spell common words.
 */
#include "frontend/reply/mark_tokens.h"

#include <stdlib.h>
#include <string.h>

static const char *const harmony_marks[] = {"<|start|>", "<|channel|>",   "<|message|>", "<|end|>",
                                            "<|call|>",  "<|constrain|>", "<|return|>",  NULL};

static bool is_part(const char *const texts[], size_t count, const char *text, size_t length)
{
    for (size_t i = 0; i < count && texts[i]; i++) {
        if (memmem(texts[i], strlen(texts[i]), text, length))
            return true;
    }
    return false;
}

static bool is_mark(const struct reasoning_format *reasoning, const struct tool_format *tools,
                    const char *text, size_t length)
{
    if (tools && tool_format_has_mark(tools, text, length))
        return true;
    if (!reasoning)
        return false;
    if (reasoning->joint)
        return is_part(harmony_marks, sizeof harmony_marks / sizeof *harmony_marks, text, length);
    return is_part(reasoning->opening, REASONING_TAGS, text, length) ||
           is_part(reasoning->closing, REASONING_TAGS, text, length) ||
           is_part(reasoning->frames, REASONING_TAGS, text, length);
}

static enum result list_add(struct token_list *list, uint32_t id)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        uint32_t *ids = realloc(list->ids, capacity * sizeof *ids);
        if (!ids)
            return RESULT_OUT_OF_MEMORY;
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->count++] = id;
    return RESULT_OK;
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
            result = list_add(list, id);
    }
    return result;
}
