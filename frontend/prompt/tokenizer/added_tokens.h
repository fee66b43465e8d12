/*
 * Added tokens: texts such as <|im_end|> or <think> that become one token before any splitting.
 *
 * Reference: Hugging Face `tokenizers`, AddedVocabulary. The one difference is trust: a special
 * token is found only in bytes that the chat template wrote.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_ADDED_TOKENS_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_ADDED_TOKENS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/prompt/tokenizer/marked_text.h"
#include "frontend/prompt/tokenizer/normalizer.h"
#include "frontend/prompt/tokenizer/pretokenizer_pattern.h"
#include "proto/result.h"

struct added_token {
    uint32_t id;
    char *content; /* owned */
    size_t content_bytes;
    bool special;
    bool normalized;  /* searched in normalized text */
    bool lstrip;      /* absorbs white space to its left */
    bool rstrip;      /* absorbs white space to its right */
    bool single_word; /* only between characters that are no word characters */
};

struct added_node {
    uint32_t child;   /* first child; 0 for none */
    uint32_t sibling; /* next child of the same parent; 0 for none */
    int32_t token;    /* index of the token that ends here, or -1 */
    uint8_t byte;
};

struct added_trie {
    struct added_node *nodes; /* nodes[0] is unused */
    uint32_t count;
    uint32_t capacity;
    uint32_t roots[256]; /* node of each first byte; 0 for none */
};

struct added_tokens {
    struct added_token *tokens;
    size_t count;
    size_t capacity;
    struct added_trie raw;
    struct added_trie normalized;
    bool has_strips; /* some token absorbs white space */
    struct pretokenizer_pattern
        *word; /* matches a word character; NULL unless some token is single_word */
};
void added_tokens_fini(struct added_tokens *added);

/* Copies the token, including its content. Call before added_tokens_index(). */
enum result added_tokens_add(struct added_tokens *added,
                             const struct added_token *token) RESULT_CHECKED;

/* Builds the tries; `normalizer` rewrites the contents of normalized tokens. */
enum result added_tokens_index(struct added_tokens *added,
                               const struct normalizer *normalizer) RESULT_CHECKED;

/* The token with exactly this content, or NULL. */
const struct added_token *added_tokens_find(const struct added_tokens *added, const char *content,
                                            size_t content_bytes);

/* The longest special token with which the text begins, or NULL. */
const struct added_token *added_tokens_special_at(const struct added_tokens *added,
                                                  const char *text, size_t bytes);

/* Text that is searched, with its trust marks. `cancelled`: NULL, or true once a search is to end. */
struct added_text {
    const char *bytes;
    const uint8_t *trusted;
    size_t count;
    const atomic_bool *cancelled;
};

struct added_match {
    size_t start; /* includes the white space that the token absorbs */
    size_t end;
    const struct added_token *token;
};

/*
 * The first match at or after `from`; lstrip absorbs nothing to the left of `from`. `trie` is
 * &added->raw or &added->normalized. RESULT_NOT_FOUND if there is none; RESULT_CANCELLED.
 */
enum result added_tokens_next(const struct added_tokens *added, const struct added_trie *trie,
                              const struct added_text *text, size_t from,
                              struct added_match *match) RESULT_CHECKED;

#endif
