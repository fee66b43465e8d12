/*
 * From scores to ranks.
 *
 * SentencePiece merges the neighbours that make the token with the best score; Hugging Face's
 * converter unrolls that into a ranked list of pairs, and the order of that list decides ties. To
 * be equal token for token, the list is built here in the same order; one merging engine then
 * serves both kinds of vocabulary. A token of n characters has n - 1 splits, few of which exist;
 * texts (LIMIT_TOKEN_BYTES) and the number of merges (LIMIT_MERGES) are bounded, so a crafted
 * vocabulary is refused early. Tokens that must never come from text (control tokens, byte tokens
 * spelled <0xNN>) get no merges.
 */
#include "frontend/prompt/tokenizer/sentencepiece_merges.h"

#include <stdlib.h>

#include "proto/limits.h"
#include "proto/utf8.h"

struct split {
    float score;
    uint16_t left_chars;
    uint16_t right_chars;
    uint32_t token;
    uint32_t left;
    uint32_t right;
};

struct split_list {
    struct split *splits;
    size_t count;
    size_t capacity;
};

static int split_order(const void *a, const void *b)
{
    const struct split *x = a;
    const struct split *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->left_chars != y->left_chars)
        return x->left_chars > y->left_chars ? -1 : 1;
    if (x->right_chars != y->right_chars)
        return x->right_chars > y->right_chars ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static enum result split_list_add(struct split_list *list, struct split split)
{
    if (list->count == list->capacity) {
        if (list->count >= LIMIT_MERGES)
            return RESULT_TOO_LARGE;
        size_t capacity = list->capacity ? list->capacity * 2 : 1 << 16;
        struct split *grown = realloc(list->splits, capacity * sizeof *grown);
        if (!grown)
            return RESULT_OUT_OF_MEMORY;
        list->splits = grown;
        list->capacity = capacity;
    }
    list->splits[list->count++] = split;
    return RESULT_OK;
}

static enum result split_token(const struct vocabulary *vocabulary, uint32_t token, float score,
                               struct split_list *list)
{
    size_t bytes;
    const char *text = vocabulary_text(vocabulary, token, &bytes);
    if (vocabulary_find(vocabulary, text, bytes) != (int32_t)token)
        return RESULT_OK; /* a repeated text: its lowest id is used */
    uint16_t chars = 0;
    for (size_t at = 0; at < bytes; chars++)
        at += utf8_char_bytes(text[at]);
    uint16_t left_chars = 1;
    for (size_t at = utf8_char_bytes(text[0]); at < bytes; left_chars++) {
        int32_t left = vocabulary_find(vocabulary, text, at);
        int32_t right = left < 0 ? -1 : vocabulary_find(vocabulary, text + at, bytes - at);
        if (right >= 0) {
            struct split split = {.score = score,
                                  .left_chars = left_chars,
                                  .right_chars = (uint16_t)(chars - left_chars),
                                  .token = token,
                                  .left = (uint32_t)left,
                                  .right = (uint32_t)right};
            enum result result = split_list_add(list, split);
            if (result)
                return result;
        }
        at += utf8_char_bytes(text[at]);
    }
    return RESULT_OK;
}

enum result sentencepiece_merges_build(const struct vocabulary *vocabulary, const float scores[],
                                       struct bpe_merge_table *merges)
{
    struct split_list list = {0};
    enum result result = RESULT_OK;
    for (uint32_t id = 0; id < vocabulary->token_count && !result; id++) {
        const struct vocabulary_token *token = &vocabulary->tokens[id];
        if ((token->flags & VOCABULARY_FINDABLE) && token->text_bytes > 1 &&
            !(token->flags & (VOCABULARY_SPECIAL | VOCABULARY_BYTE)))
            result = split_token(vocabulary, id, scores[id], &list);
    }
    if (!result && list.count > 0)
        qsort(list.splits, list.count, sizeof *list.splits, split_order);
    for (size_t i = 0; i < list.count && !result; i++)
        result = bpe_merge_table_add(merges, list.splits[i].left, list.splits[i].right,
                                     list.splits[i].token);
    free(list.splits);
    return result;
}
