/*
 * Rewrites text before it is split: normalization form C, replacement of a string or of runs of
 * spaces, a string prepended, white space stripped, BERT's rules, SentencePiece's character map.
 *
 * Reference: Hugging Face `tokenizers`, normalizers NFC, Replace (of a string, or of the regular
 * expression " {2,}"), Prepend, Strip, BertNormalizer and Precompiled, alone or in sequence.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_NORMALIZER_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_NORMALIZER_H

#include <stdatomic.h>

#include "frontend/prompt/tokenizer/bert_text.h"
#include "frontend/prompt/tokenizer/character_map.h"
#include "frontend/prompt/tokenizer/marked_text.h"
#include "proto/limits.h"
#include "proto/result.h"

enum normalizer_step_kind {
    NORMALIZER_FORM_C,
    NORMALIZER_REPLACE,
    NORMALIZER_SPACE_RUNS, /* two or more spaces become `to` */
    NORMALIZER_PREPEND,
    NORMALIZER_STRIP,
    NORMALIZER_BERT,
    NORMALIZER_CHARACTERS
};

struct normalizer_step {
    enum normalizer_step_kind kind;
    char from[LIMIT_LITERAL_BYTES]; /* NORMALIZER_REPLACE: not empty */
    size_t from_bytes;
    char
        to[LIMIT_LITERAL_BYTES]; /* NORMALIZER_REPLACE, NORMALIZER_SPACE_RUNS, NORMALIZER_PREPEND */
    size_t to_bytes;
    bool strips_left, strips_right; /* NORMALIZER_STRIP */
    struct bert_rules bert;         /* NORMALIZER_BERT */
    struct character_map *map;      /* NORMALIZER_CHARACTERS */
};

struct normalizer {
    struct normalizer_step steps[LIMIT_NORMALIZER_STEPS];
    size_t step_count;
};

void normalizer_fini(struct normalizer *normalizer);

/* Takes ownership of the step's map (also on failure). RESULT_TOO_LARGE over
 * LIMIT_NORMALIZER_STEPS. */
enum result normalizer_add(struct normalizer *normalizer,
                           const struct normalizer_step *step) RESULT_CHECKED;

/* Rewrites *text in place (through *spare, whose content is lost). RESULT_TOO_LARGE,
 * RESULT_OUT_OF_MEMORY, RESULT_CANCELLED once *cancelled is true (may be NULL). */
enum result normalizer_run(const struct normalizer *normalizer, struct marked_text *text,
                           struct marked_text *spare, const atomic_bool *cancelled) RESULT_CHECKED;

#endif
