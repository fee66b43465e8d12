/*
 * Counts tokens by the kind of their text.
 *
 * The kind of text is decided after it arrives, by at most the length of a tag. Until then the ends
 * of tokens are kept here.
 */
#ifndef SHOAL_FRONTEND_REPLY_TOKEN_TALLY_H
#define SHOAL_FRONTEND_REPLY_TOKEN_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

enum token_kind { TOKEN_TAG = 0, TOKEN_REASONING, TOKEN_REST, TOKEN_KINDS };

/* Each undecided token has at least one byte of an undecided tag. */
enum { TOKEN_TALLY_WAITING = LIMIT_REASONING_TAG_BYTES + 1 };

/* Zero-initialized before first use. */
struct token_tally {
    uint32_t counts[TOKEN_KINDS];
    uint64_t arrived; /* bytes */
    uint64_t decided; /* decided bytes of these */
    struct {
        uint64_t end;
        bool is_token;
    } ends[TOKEN_TALLY_WAITING]; /* a ring: where each waiting token ends */
    uint32_t first;
    uint32_t waiting;
    enum token_kind kind; /* of the first waiting token, by its bytes so far */
};

/* A token with `length` > 0 bytes arrived, or bytes without a token. */
void token_tally_arrive(struct token_tally *tally, size_t length, bool is_token);
/* The next `length` arrived bytes are of this kind. A token's first byte outside tags decides its
 * kind. */
void token_tally_decide(struct token_tally *tally, size_t length, enum token_kind kind);

#endif
