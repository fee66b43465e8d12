/*
 * Cuts text into the pieces that are tokenized separately.
 *
 * Reference: Hugging Face `tokenizers`, pre_tokenizers: Split, Digits, Punctuation, ByteLevel,
 * Metaspace and BertPreTokenizer, alone or in sequence, with the five behaviours of a split. A pre-tokenizer without
 * steps leaves the text whole.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_PRETOKENIZER_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_PRETOKENIZER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/prompt/tokenizer/pretokenizer_pattern.h"
#include "proto/limits.h"
#include "proto/result.h"

enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS,
};

enum prefix_rule { PREFIX_NEVER, PREFIX_FIRST, PREFIX_ALWAYS };

enum pretokenizer_step_kind {
    PRETOKENIZER_PATTERN, /* split where a regular expression matches */
    PRETOKENIZER_LITERAL, /* split where a string occurs */
    PRETOKENIZER_SPACES,  /* replace ' ' by `literal`, and prepend one to pieces that do not start
                             with it */
    PRETOKENIZER_WORDS,   /* words between white space, which is removed, and punctuation marks
                             (bert_text.h) */
};

struct pretokenizer_step {
    enum pretokenizer_step_kind kind;
    enum split_behavior behavior;
    bool invert;             /* gaps count as matches */
    enum prefix_rule prefix; /* PRETOKENIZER_SPACES */
    struct pretokenizer_pattern *pattern;
    char literal[LIMIT_LITERAL_BYTES];
    size_t literal_bytes;
};

struct pretokenizer {
    struct pretokenizer_step steps[LIMIT_PRETOKENIZER_STEPS];
    size_t step_count;
};
void pretokenizer_fini(struct pretokenizer *pretokenizer);

/* Appends a step; the pretokenizer takes ownership of its pattern (also on failure).
 * RESULT_TOO_LARGE. */
enum result pretokenizer_add(struct pretokenizer *pretokenizer,
                             struct pretokenizer_step step) RESULT_CHECKED;
/* Appends a PRETOKENIZER_PATTERN step from the regex's text. */
enum result pretokenizer_add_pattern(struct pretokenizer *pretokenizer, const char *regex,
                                     size_t regex_bytes, enum split_behavior behavior, bool invert,
                                     struct error_text *error) RESULT_CHECKED;

struct piece {
    uint32_t start;
    uint32_t end;
};

struct piece_list {
    struct piece *pieces;
    size_t count;
    size_t capacity;
};

/* Working memory of one thread, reused between texts; zero-initialized. */
struct pretokenizer_scratch {
    struct piece_list pieces; /* the result */
    struct piece_list before;
    char *text; /* rewritten text, if a step rewrote it */
    size_t text_capacity;
    char *text_before;
    size_t text_before_capacity;
    struct pattern_search *search;
    const atomic_bool *cancelled; /* NULL, or true once pretokenizer_run() is to end */
};
void pretokenizer_scratch_fini(struct pretokenizer_scratch *scratch);

/*
 * Cuts valid UTF-8 (at most 1 GiB). The pieces are in scratch->pieces and index into *cut_text,
 * which is `text` or scratch memory. `at_start`: the text begins where the whole prompt begins.
 * RESULT_CANCELLED, RESULT_OUT_OF_MEMORY, RESULT_UNSUPPORTED (pretokenizer_pattern_find).
 */
enum result pretokenizer_run(const struct pretokenizer *pretokenizer,
                             struct pretokenizer_scratch *scratch, const char *text,
                             size_t text_bytes, bool at_start,
                             const char **cut_text) RESULT_CHECKED;

#endif
