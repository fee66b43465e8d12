/*
 * The parts of a struct tokenizer, for the files that build one (tokenizer_builder.h) and use one
 * (tokenizer.c, tokenizer_encode.c).
 *
 * The stages of encoding, in order: added tokens are cut out of the raw text; the text between them
 * is normalized; added tokens that are "normalized" are cut out of the result; the rest is split
 * into pieces; each piece is merged into tokens, or cut into them.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_TOKENIZER_STATE_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_TOKENIZER_STATE_H

#include "frontend/prompt/tokenizer/added_tokens.h"
#include "frontend/prompt/tokenizer/bpe_model.h"
#include "frontend/prompt/tokenizer/normalizer.h"
#include "frontend/prompt/tokenizer/pretokenizer.h"
#include "frontend/prompt/tokenizer/token_list.h"
#include "frontend/prompt/tokenizer/unigram_model.h"
#include "frontend/prompt/tokenizer/vocabulary.h"
#include "frontend/prompt/tokenizer/wordpiece_model.h"
#include "proto/limits.h"

struct tokenizer {
    struct vocabulary vocabulary;
    struct added_tokens added;
    struct normalizer normalizer;
    struct pretokenizer pretokenizer;
    struct bpe_model model;
    struct wordpiece_model words; /* if used, instead of `model` */
    struct unigram_model unigram; /* the same */
    int32_t bos_token;
    int32_t eos_token;
    bool adds_bos;
    int32_t tail_token; /* ends a text that is embedded; -1: none */
    /* A pair of texts is bos, the first, pair_middle, the second, tail. */
    uint32_t pair_middle[PAIR_MIDDLE_TOKENS_MAX];
    uint32_t pair_middle_count; /* 0: pairs are not supported */
    bool pair_segments;         /* the second text and its tail have type 1, all else 0 */
    bool strips_space;
    bool shows_spaces; /* U+2581 is shown as a space */
    uint32_t end_tokens[LIMIT_STOP_TOKENS];
    uint32_t end_token_count;
};

#endif
