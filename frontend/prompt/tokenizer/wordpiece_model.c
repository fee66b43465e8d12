/*
 * A word costs at most its characters times the characters of the longest token in lookups, because
 * no candidate is longer than that token.
 */
#include "frontend/prompt/tokenizer/wordpiece_model.h"

#include <string.h>

#include "proto/utf8.h"

/* The longest token of a text's beginning, after the prefix unless `first`. -1: none. */
static int32_t longest_piece(const struct wordpiece_model *model,
                             const struct vocabulary *vocabulary, bool first, const char *text,
                             size_t text_bytes, size_t *piece_bytes)
{
    char spelled[LIMIT_LITERAL_BYTES + LIMIT_TOKEN_BYTES];
    size_t before = first ? 0 : model->prefix_bytes;
    if (vocabulary->longest_bytes < before)
        return -1;
    size_t end = vocabulary->longest_bytes - before;
    if (end >= text_bytes) {
        end = text_bytes;
    } else {
        while (end > 0 && ((uint8_t)text[end] & 0xC0) == 0x80)
            end--;
    }
    memcpy(spelled, model->prefix, before);
    memcpy(spelled + before, text, end);
    for (; end > 0; end = utf8_previous(text, end)) {
        int32_t id = vocabulary_find_ordinary(vocabulary, spelled, before + end);
        if (id >= 0) {
            *piece_bytes = end;
            return id;
        }
    }
    return -1;
}

static bool is_too_long(const struct wordpiece_model *model, const char *word, size_t word_bytes)
{
    size_t chars = 0;
    for (size_t at = 0; at < word_bytes && chars <= model->word_chars; chars++)
        at += utf8_char_bytes(word[at]);
    return chars > model->word_chars;
}

enum result wordpiece_model_encode(const struct wordpiece_model *model,
                                   const struct vocabulary *vocabulary, const char *word,
                                   size_t word_bytes, size_t max_tokens, struct token_list *out)
{
    uint32_t ids[WORDPIECE_WORD_CHARS_MAX];
    size_t count = 0;
    bool unknown = is_too_long(model, word, word_bytes);
    for (size_t at = 0; at < word_bytes && !unknown;) {
        size_t bytes = 0;
        int32_t id = longest_piece(model, vocabulary, at == 0, word + at, word_bytes - at, &bytes);
        unknown = id < 0;
        if (!unknown)
            ids[count++] = (uint32_t)id;
        at += bytes;
    }
    if (!unknown)
        return token_list_append(out, ids, count, max_tokens);
    if (model->unknown_id < 0)
        return RESULT_UNSUPPORTED;
    ids[0] = (uint32_t)model->unknown_id;
    return token_list_append(out, ids, 1, max_tokens);
}
