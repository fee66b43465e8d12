/*
 * Encodes one word: the longest piece of the vocabulary that it begins with, then the longest one
 * that continues it (spelled with a prefix, "##"), and so on; the unknown token if a rest has none.
 *
 * Reference: Hugging Face `tokenizers`, models::wordpiece.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_WORDPIECE_MODEL_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_WORDPIECE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/prompt/tokenizer/token_list.h"
#include "frontend/prompt/tokenizer/vocabulary.h"
#include "proto/limits.h"
#include "proto/result.h"

#define WORDPIECE_WORD_CHARS_MAX 1000u /* published models have 100 */

struct wordpiece_model {
    bool used; /* the tokenizer has this model instead of BPE */
    char prefix[LIMIT_LITERAL_BYTES];
    size_t prefix_bytes;
    uint32_t word_chars; /* a longer word is unknown; at most WORDPIECE_WORD_CHARS_MAX */
    int32_t unknown_id;  /* -1: unknown words are refused */
};

/* Appends the tokens of a word of valid UTF-8. No special token results except the unknown token.
 * RESULT_UNSUPPORTED: the word is unknown, and there is no token for that. */
enum result wordpiece_model_encode(const struct wordpiece_model *model,
                                   const struct vocabulary *vocabulary, const char *word,
                                   size_t word_bytes, size_t max_tokens,
                                   struct token_list *out) RESULT_CHECKED;

#endif
