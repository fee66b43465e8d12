/*
 * A tiny byte-level tokenizer.json: ids 0-255 are the bytes, followed by a few merges and special
 * tokens.
 */
#ifndef SHOAL_TESTS_SUPPORT_TINY_TOKENIZER_H
#define SHOAL_TESTS_SUPPORT_TINY_TOKENIZER_H

#include "frontend/prompt/tokenizer/tokenizer.h"

enum tiny_token {
    TINY_HE = 256, /* "he" */
    TINY_LL = 257, /* "ll" */
    TINY_VOCAB_BASE = 258,
    TINY_START = 258, /* <|im_start|>, special */
    TINY_END = 259,   /* <|im_end|>, special */
    TINY_IMAGE = 260, /* <|image_pad|>, special */
    TINY_VOCAB = 261
};

enum tiny_piece { PIECE_A = 1, PIECE_SPACE, PIECE_SPACE_A, PIECE_A_SPACE, PIECE_START };

/* The JSON text, malloc'd. */
char *tiny_tokenizer_json(size_t *json_bytes);
/* The tokenizer; the caller closes it. */
struct tokenizer *tiny_tokenizer_open(void);
/* A vocabulary of pieces (enum tiny_piece), which shows U+2581 as a space. `scheme`: "always" or
 * "never" puts a space in front of a text. The caller closes it. */
struct tokenizer *tiny_pieces_open(const char *scheme);

#endif
