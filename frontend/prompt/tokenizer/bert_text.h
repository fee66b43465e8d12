/*
 * Text as BERT's vocabularies see it: cleaned, ideographs set apart, without accents, in lower case;
 * and its words.
 *
 * Reference: Hugging Face `tokenizers`, BertNormalizer and BertPreTokenizer.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_BERT_TEXT_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_BERT_TEXT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "frontend/prompt/tokenizer/marked_text.h"
#include "proto/result.h"

struct bert_rules {
    bool cleans;            /* drops control characters, spaces become ' ' */
    bool spaces_ideographs; /* a space before and after each ideograph */
    bool strips_accents;    /* decomposes and drops nonspacing marks */
    bool lowers;
};

/* Appends the normalized text to `out`. RESULT_TOO_LARGE, RESULT_OUT_OF_MEMORY, RESULT_CANCELLED
 * once *cancelled is true (may be NULL). */
enum result bert_text_normalize(const struct bert_rules *rules, const struct marked_text *text,
                                struct marked_text *out,
                                const atomic_bool *cancelled) RESULT_CHECKED;

/* The next word of valid UTF-8 from *start on: a punctuation character, or characters up to the next
 * one or white space. False: there is none. */
bool bert_text_next_word(const char *text, size_t text_bytes, size_t *start, size_t *end);

#endif
