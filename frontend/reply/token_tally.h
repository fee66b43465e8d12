/*
 * Tokens counted by what their text turned out to be.
 *
 * Text is decided on later than it arrives, by at most the length of a tag. Until then the ends of
 * tokens wait here.
 */
#ifndef SHOAL_FRONTEND_REPLY_TOKEN_TALLY_H
#define SHOAL_FRONTEND_REPLY_TOKEN_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

enum token_kind { TOKEN_TAG = 0, TOKEN_REASONING, TOKEN_REST, TOKEN_KINDS };

/* Undecided tokens have a byte of an undecided tag each. */
enum { TOKEN_TALLY_WAITING = LIMIT_REASONING_TAG_BYTES + 1 };

/* Zero-initialized before first use. */
struct token_tally {
    uint32_t counts[TOKEN_KINDS];
    uint64_t arrived; /* bytes */
    uint64_t decided; /* bytes of these */
    struct {
        uint64_t end;
        bool is_token;
    } ends[TOKEN_TALLY_WAITING]; /* a ring: where each waiting token ends */
    uint32_t first;
    uint32_t waiting;
    enum token_kind kind; /* of the first of them, by its bytes so far */
};

/* A token with `length` > 0 bytes arrived, or as many bytes that no token is counted for. */
void token_tally_arrive(struct token_tally *tally, size_t length, bool is_token);
/* The next `length` bytes that arrived are of this kind. The first byte of a token that is of no
 * tag decides for all of it. */
void token_tally_decide(struct token_tally *tally, size_t length, enum token_kind kind);

#endif
