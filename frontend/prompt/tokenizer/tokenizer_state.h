/*
 * What a struct tokenizer is made of; for the files that build one (tokenizer_gguf.c,
 * tokenizer_json.c) and use one (tokenizer.c, tokenizer_encode.c).
 *
 * The stages of encoding, in order: added tokens are cut out of the raw text; what lies between is
 * normalized; added tokens that are "normalized" are cut out of that; the rest is split into
 * pieces; each piece is merged into tokens.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_TOKENIZER_STATE_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_TOKENIZER_STATE_H

#include "frontend/prompt/tokenizer/bpe_model.h"
#include "frontend/prompt/tokenizer/pretokenizer.h"
#include "frontend/prompt/tokenizer/tokenizer.h"
#include "frontend/prompt/tokenizer/tokenizer_added.h"
#include "frontend/prompt/tokenizer/tokenizer_normalizer.h"
#include "frontend/prompt/tokenizer/vocabulary.h"
#include "proto/limits.h"

struct tokenizer {
    struct vocabulary vocabulary;
    struct added_tokens added;
    struct normalizer normalizer;
    struct pretokenizer pretokenizer;
    struct bpe_model model;
    int32_t bos_token;
    int32_t eos_token;
    bool adds_bos;
    bool strips_space;
    bool shows_spaces; /* U+2581 is shown as a space */
    uint32_t end_tokens[LIMIT_STOP_TOKENS];
    uint32_t end_token_count;
};

/* All empty. NULL when out of memory. */
struct tokenizer *tokenizer_create(void);

/* Makes sure that the vocabulary has an added token, and registers it for matching if it is valid
 * UTF-8. */
enum result tokenizer_add_token(struct tokenizer *tokenizer,
                                const struct added_token *token) RESULT_CHECKED;

/*
 * Adds a merge of two findable texts. RESULT_NOT_FOUND when a part or the merged text is no token.
 * A merge that would build a special token is left out.
 */
enum result tokenizer_add_merge(struct tokenizer *tokenizer, const char *left, size_t left_bytes,
                                const char *right, size_t right_bytes) RESULT_CHECKED;

/* SentencePiece: how text is normalized, with a space put in front or without, and the usual roles.
 */
enum result tokenizer_begin_pieces(struct tokenizer *tokenizer, bool has_prefix) RESULT_CHECKED;

/* SentencePiece: shown bytes of tokens spelled with U+2581 and <0xNN>; marks the latter
 * VOCABULARY_BYTE. */
enum result tokenizer_show_pieces(struct tokenizer *tokenizer) RESULT_CHECKED;

/* Last step of opening: indices, derived tables, end tokens. */
enum result tokenizer_finish(struct tokenizer *tokenizer) RESULT_CHECKED;

#endif
