/*
 * The state of one answer in its grammar, and the tokens that may come next.
 *
 * State and masks are functions of (blob, tokens followed) alone; caches change no mask. A token
 * is allowed if the text so far and its bytes begin some text of the grammar, so a mask is the
 * same as trying every token. End tokens are allowed only where the grammar's text may end, and
 * nothing is allowed after one. Special tokens are allowed only where the grammar names the token.
 *
 * GRAMMAR_FUEL and GRAMMAR_MEMORY: the request must fail; there is no unmasked fallback.
 */
#ifndef SHOAL_WORKER_SAMPLE_GRAMMAR_MATCHER_H
#define SHOAL_WORKER_SAMPLE_GRAMMAR_MATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/sample/grammar_result.h"
#include "worker/sample/grammar_vocabulary.h"

struct grammar_matcher;

/* Checks and copies the blob (proto/grammar_blob.h). NULL: *result says why. The vocabulary
 * outlives the matcher. */
struct grammar_matcher *grammar_matcher_open(struct grammar_vocabulary *vocabulary,
                                             const void *blob, size_t bytes,
                                             enum grammar_result *result);
void grammar_matcher_close(struct grammar_matcher *matcher);

/* Takes further tokens of the answer. On any other result than GRAMMAR_OK the matcher is as it was
 * before the call. */
enum grammar_result grammar_matcher_follow(struct grammar_matcher *matcher, const uint32_t *tokens,
                                           size_t count);
/* Tokens followed so far. */
size_t grammar_matcher_followed(const struct grammar_matcher *matcher);
/* Goes back to the state after the first `tokens` <= followed tokens. */
void grammar_matcher_cut(struct grammar_matcher *matcher, size_t tokens);

/* Writes every word of the mask [grammar_vocabulary_mask_words()]; *allowed is the number of set
 * bits. It can be 0 if the vocabulary lacks the bytes that must follow, or after an end token. */
enum grammar_result grammar_matcher_mask(struct grammar_matcher *matcher, uint32_t *words,
                                         size_t *allowed);
/* Whether a mask with `allowed` tokens forces the text that follows: it has one token, or the bytes
 * of all its tokens begin the longest one. *token is that one. Masks of many tokens are not
 * looked at. */
bool grammar_matcher_forced_text(const struct grammar_matcher *matcher, const uint32_t *words,
                                 size_t allowed, uint32_t *token);
/* The text so far is a whole text of the grammar. */
bool grammar_matcher_may_end(const struct grammar_matcher *matcher);
/* An end token was followed. */
bool grammar_matcher_has_ended(const struct grammar_matcher *matcher);

#endif
