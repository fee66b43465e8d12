/*
 * The inside of a vocabulary, for the mask: a flat trie of the tokens' bytes in depth-first order.
 * The nodes below node n are n + 1 up to nodes[n].end; node 0 is the root, the empty text.
 */
#ifndef SHOAL_WORKER_SAMPLE_GRAMMAR_TRIE_H
#define SHOAL_WORKER_SAMPLE_GRAMMAR_TRIE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/sample/grammar_result.h"

struct grammar_program;

#define GRAMMAR_NO_TOKEN UINT32_MAX

struct grammar_trie_node {
    uint32_t token; /* the first token that is exactly this text, or GRAMMAR_NO_TOKEN */
    uint32_t end;
    uint16_t depth; /* bytes of the text */
    uint8_t byte;   /* its last byte */
    bool is_shared; /* further tokens are exactly this text */
};

/* Tokens of plain characters only (grammar_plain.h) are sliced by their number of characters. */
#define GRAMMAR_SLICES 3u

/* The tokens outside the first slices, as nodes of the trie without its root. */
struct grammar_rest_node {
    uint32_t node; /* in the whole trie */
    uint32_t end;  /* after the nodes below, in this list */
    uint16_t depth;
    uint8_t byte;
    bool has_token; /* its token is outside the slices */
};

struct grammar_rest {
    struct grammar_rest_node *nodes;
    uint32_t count;
};

#define GRAMMAR_KEPT_PROGRAMS 16u

struct grammar_vocabulary {
    uint32_t token_count;
    uint32_t logit_count;
    uint8_t *bytes;    /* of all tokens */
    uint32_t *offsets; /* [token_count + 1]; end tokens have no bytes */
    bool *is_end;      /* [logit_count] */
    struct grammar_trie_node *nodes;
    uint32_t node_count;
    uint32_t *same_text; /* [token_count] next token with the same bytes, or GRAMMAR_NO_TOKEN */
    uint32_t longest;    /* bytes of the longest token */
    uint32_t slice_length[GRAMMAR_SLICES];                   /* maximum number of characters */
    uint32_t *slice_words[GRAMMAR_SLICES];                   /* [k]: mask of the slices 0 to k */
    struct grammar_rest rest[GRAMMAR_SLICES];                /* [k]: without the slices 0 to k */
    pthread_mutex_t lock;                                    /* of the programs */
    struct grammar_program *programs[GRAMMAR_KEPT_PROGRAMS]; /* most recently opened first */
};

/* 32-bit words of a mask. */
static inline size_t grammar_trie_mask_words(const struct grammar_vocabulary *vocabulary)
{
    return ((size_t)vocabulary->logit_count + 31) / 32;
}

/* The program of the blob, shared with other matchers; NULL: *result says why. */
struct grammar_program *grammar_vocabulary_take_program(struct grammar_vocabulary *vocabulary,
                                                        const void *blob, size_t bytes,
                                                        enum grammar_result *result);
/* Another program of the same blob, for a matcher of one whose automaton is full; the full one is
 * not given to further matchers. */
struct grammar_program *grammar_vocabulary_renew_program(struct grammar_vocabulary *vocabulary,
                                                         struct grammar_program *full,
                                                         enum grammar_result *result);
void grammar_vocabulary_give_program(struct grammar_vocabulary *vocabulary,
                                     struct grammar_program *program);

#endif
