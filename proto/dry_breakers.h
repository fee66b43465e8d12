/*
 * The sequence breakers of DRY (worker/sample/dry_penalty.h) as tokens, in the payload section
 * DRY_BREAKERS: sequences of token ids. Where one occurs in the text, no repetition reaches back
 * over it.
 *
 * A sequence is a word with its length n, 1..LIMIT_DRY_BREAKER_TOKENS, and n ids in the order of the
 * text. Sequences are in ascending order of their first id; at most
 * LIMIT_DRY_BREAKERS have the same one.
 */
#ifndef SHOAL_PROTO_DRY_BREAKERS_H
#define SHOAL_PROTO_DRY_BREAKERS_H

#include <stdint.h>

#include "proto/result.h"

struct dry_breakers {
    uint32_t *words;  /* [word_count] owned, malloc */
    uint32_t *starts; /* [sequence_count] where in `words` each sequence begins; owned */
    uint32_t word_count;
    uint32_t sequence_count;
};

/* Takes over `words`, malloc, also if it fails. RESULT_INVALID, and the error text says which word is
 * wrong. */
enum result dry_breakers_init(struct dry_breakers *breakers, uint32_t *words, uint32_t word_count,
                              uint32_t vocab_tokens, struct error_text *error) RESULT_CHECKED;
/* Safe on a zeroed struct. */
void dry_breakers_fini(struct dry_breakers *breakers);

/* The number of tokens after the last breaker among the last `count` tokens; `count` without one.
 * `newest` points to the last token. Of several that begin at one token, the longest counts.
 * `breakers` may be NULL. */
uint32_t dry_breakers_find_last(const struct dry_breakers *breakers, const uint32_t *newest,
                                uint32_t count);

#endif
