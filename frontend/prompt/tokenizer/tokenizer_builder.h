/*
 * Builds a tokenizer, for the readers of its files (tokenizer_gguf.c, tokenizer_json.c,
 * tokenizer_model.c). In order: create, fill the vocabulary, add tokens and merges, finish.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_TOKENIZER_BUILDER_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_TOKENIZER_BUILDER_H

#include "frontend/prompt/tokenizer/tokenizer_state.h"
#include "proto/result.h"

/* An empty tokenizer; NULL if out of memory. */
struct tokenizer *tokenizer_create(void);

/* Adds an added token to the vocabulary if it is missing, and registers it for matching if it is
 * valid UTF-8. */
enum result tokenizer_add_token(struct tokenizer *tokenizer,
                                const struct added_token *token) RESULT_CHECKED;

/*
 * Adds a merge of two findable texts. RESULT_NOT_FOUND if a part or the merged text is no token. A
 * merge that would build a special token is skipped.
 */
enum result tokenizer_add_merge(struct tokenizer *tokenizer, const char *left, size_t left_bytes,
                                const char *right, size_t right_bytes) RESULT_CHECKED;

/* SentencePiece: sets the normalization, with or without a space prepended, and the usual special
 * ids. */
enum result tokenizer_begin_pieces(struct tokenizer *tokenizer, bool has_prefix) RESULT_CHECKED;

/* SentencePiece: shown bytes of tokens spelled with U+2581 and <0xNN>; marks the latter
 * VOCABULARY_BYTE. */
enum result tokenizer_show_pieces(struct tokenizer *tokenizer) RESULT_CHECKED;

/* WordPiece: shown bytes of tokens, a space before each word and no prefix in it. */
enum result tokenizer_show_words(struct tokenizer *tokenizer) RESULT_CHECKED;

/* Last step of opening: indices, derived tables, end tokens. */
enum result tokenizer_finish(struct tokenizer *tokenizer) RESULT_CHECKED;

#endif
