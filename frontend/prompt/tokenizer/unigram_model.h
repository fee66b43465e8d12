/*
 * Encodes a piece of text as the sequence of tokens whose scores (log-probabilities) have the
 * largest sum. A character that is no token itself costs the score of the unknown token, which is
 * the lowest score of the vocabulary less 10; unknown characters in a row are one token.
 *
 * Reference: Hugging Face `tokenizers`, models::unigram (encode_optimized), 0.23.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_UNIGRAM_MODEL_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_UNIGRAM_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/prompt/tokenizer/token_list.h"
#include "frontend/prompt/tokenizer/vocabulary.h"
#include "proto/result.h"

struct unigram_model {
    bool used;        /* the tokenizer has this model instead of BPE */
    double *scores;   /* [token_count] by id; finite */
    uint32_t *sorted; /* [sorted_count] ids that text may become, by the bytes of their texts */
    uint32_t
        first[257]; /* those that begin with byte b are sorted[first[b]] to [first[b + 1] - 1] */
    uint32_t sorted_count;
    uint32_t token_count;
    double unknown_score;
    int32_t unknown_id;    /* -1: unknown characters are refused */
    bool byte_fallback;    /* an unknown text becomes its bytes, if there is a token for each */
    int32_t byte_ids[256]; /* of <0xNN>; -1: none */
};
void unigram_model_fini(struct unigram_model *model);

/* Sets the score of the next id. RESULT_INVALID if it is not finite, RESULT_TOO_LARGE. */
enum result unigram_model_add(struct unigram_model *model, double score) RESULT_CHECKED;
/* Builds the index over an indexed vocabulary of token_count tokens or more; later ones have no
 * score and are not found. */
enum result unigram_model_prepare(struct unigram_model *model,
                                  const struct vocabulary *vocabulary) RESULT_CHECKED;

/* Working memory of one thread, reused between pieces; zero-initialized. */
struct unigram_scratch {
    uint32_t *back; /* for each byte of the piece at which a token may end: which token does */
    size_t back_capacity;
    double *best; /* a ring: the largest sum of scores up to a byte */
    size_t best_capacity;
    const atomic_bool *cancelled; /* NULL, or true once encoding is to end */
};
void unigram_scratch_fini(struct unigram_scratch *scratch);

/* Appends the tokens of a piece of valid UTF-8. No special token results except the unknown token.
 * RESULT_UNSUPPORTED: a character is unknown, and there is no token for that; RESULT_CANCELLED;
 * RESULT_TOO_LARGE; RESULT_OUT_OF_MEMORY. */
enum result unigram_model_encode(const struct unigram_model *model,
                                 const struct vocabulary *vocabulary,
                                 struct unigram_scratch *scratch, const char *text,
                                 size_t text_bytes, size_t max_tokens,
                                 struct token_list *out) RESULT_CHECKED;

#endif
