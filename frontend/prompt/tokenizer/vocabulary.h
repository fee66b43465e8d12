/*
 * The token texts of one checkpoint: by id, and from text to id.
 *
 * A token has a text (used by merges and lookups: raw bytes for byte-level vocabularies, text with
 * U+2581 for spaces for SentencePiece ones) and shown bytes (to which it decodes), which are equal
 * unless set. Ids may have gaps. Filled once, then indexed, then read by any number of threads.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_VOCABULARY_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

enum vocabulary_flag {
    VOCABULARY_PRESENT = 1,
    VOCABULARY_FINDABLE = 2, /* the text is in the model's vocabulary: merges may build it */
    VOCABULARY_SPECIAL = 4,  /* control token: never from a user's text, never shown */
    VOCABULARY_ADDED = 8,    /* matched in the text before any splitting */
    VOCABULARY_BYTE = 16,    /* <0xNN> of byte fallback */
};

struct vocabulary_token {
    uint32_t text_start;
    uint32_t shown_start;
    uint16_t text_bytes;
    uint16_t shown_bytes;
    uint8_t flags; /* enum vocabulary_flag */
};

struct vocabulary {
    struct vocabulary_token *tokens; /* [token_count] */
    uint32_t token_count;            /* highest id + 1 */
    uint32_t token_capacity;
    char *bytes;
    size_t byte_count;
    size_t byte_capacity;
    uint32_t *slots; /* open addressing: 12 bits of hash above the id; all ones is free */
    uint32_t slot_mask;
    uint64_t seed; /* random: a crafted vocabulary cannot make lookups collide */
    uint32_t longest_bytes;
};

void vocabulary_init(struct vocabulary *vocabulary);
void vocabulary_fini(struct vocabulary *vocabulary);

/* Sets text and shown bytes of `id` and adds `flags`. RESULT_TOO_LARGE over LIMIT_VOCAB_TOKENS /
 * LIMIT_TOKEN_BYTES. */
enum result vocabulary_set_text(struct vocabulary *vocabulary, uint32_t id, const char *text,
                                size_t text_bytes, unsigned flags) RESULT_CHECKED;
/* Sets only the shown bytes, of a token that has a text. */
enum result vocabulary_set_shown(struct vocabulary *vocabulary, uint32_t id, const char *shown,
                                 size_t shown_bytes) RESULT_CHECKED;

/* Builds the index of all FINDABLE tokens; for equal texts the lowest id is found. */
enum result vocabulary_index(struct vocabulary *vocabulary) RESULT_CHECKED;

/* -1 if no FINDABLE token has this text. */
int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *text, size_t text_bytes);

/* The same for a text of a user, which never becomes a special token: -1 for those too. */
int32_t vocabulary_find_ordinary(const struct vocabulary *vocabulary, const char *text,
                                 size_t text_bytes);
/* The token <0xNN> of byte fallback, or -1; not a special one. */
int32_t vocabulary_find_byte(const struct vocabulary *vocabulary, uint8_t byte);

bool vocabulary_has(const struct vocabulary *vocabulary, uint32_t id, unsigned flags);
/* Bytes owned by the vocabulary; empty for an id outside it. */
const char *vocabulary_text(const struct vocabulary *vocabulary, uint32_t id, size_t *text_bytes);
const char *vocabulary_shown(const struct vocabulary *vocabulary, uint32_t id, size_t *shown_bytes);

/* A new random key for the vocabulary's hash. */
uint64_t vocabulary_random_seed(void);

#endif
