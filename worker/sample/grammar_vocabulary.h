/*
 * What masks need of a vocabulary, built once at load: the tokens' bytes as a flat trie, the end
 * tokens, and the masks of tokens that are only characters of a JSON string, by length.
 *
 * It also keeps the programs of recent grammars (grammar_matcher.h), so that sequences with the
 * same grammar share caches. Not thread-safe: a vocabulary and its matchers belong to one thread
 * at a time, except that grammar_matcher_mask() of matchers with different blobs may run at once.
 */
#ifndef SHOAL_WORKER_SAMPLE_GRAMMAR_VOCABULARY_H
#define SHOAL_WORKER_SAMPLE_GRAMMAR_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

/* Token t has bytes[offsets[t]] up to offsets[t + 1]. Special tokens have none: text never matches
 * them. Offsets ascend; a token has at most LIMIT_TOKEN_BYTES bytes. */
struct token_bytes {
    const uint8_t *bytes;
    const uint32_t *offsets; /* [count + 1] */
    uint32_t count;
};

struct grammar_vocabulary;

/* Copies what it needs. `logit_count` >= table->count is the width of masks; tokens beyond the
 * table are never allowed. End tokens are below logit_count and match no text, whatever bytes they
 * have. NULL: the table breaks a rule, or out of memory. */
struct grammar_vocabulary *grammar_vocabulary_open(const struct token_bytes *table,
                                                   const uint32_t *end_tokens, size_t end_count,
                                                   uint32_t logit_count);
/* All its matchers are closed before. */
void grammar_vocabulary_close(struct grammar_vocabulary *vocabulary);

/* Words of a mask: ceil(logit_count / 32). Token t is bit t % 32 of word t / 32. */
size_t grammar_vocabulary_mask_words(const struct grammar_vocabulary *vocabulary);

#endif
