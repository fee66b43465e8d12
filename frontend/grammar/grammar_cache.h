/*
 * Compiled grammars by their source: a hash table with a random key, limited in bytes, of which the
 * least recently used are dropped. A grammar that is refused is kept as its error; a compilation
 * that was cancelled, or took too much work or memory, is not kept. All functions may be called
 * from any thread; two threads that miss the same source both compile it.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_GRAMMAR_CACHE_H
#define SHOAL_FRONTEND_GRAMMAR_GRAMMAR_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/grammar/grammar_builder.h"
#include "frontend/grammar/grammar_error.h"
#include "proto/result.h"

struct shared_bytes; /* frontend/base/shared_bytes.h */
struct text_buffer;  /* frontend/base/text_buffer.h */

/* Makes the root symbol. False as grammar_source_compile(). What it appends to `note` (empty at
 * first) is kept with the grammar. */
typedef bool grammar_compiler(void *context, struct grammar_builder *builder, symbol_id *root,
                              struct text_buffer *note, struct grammar_error *error);

struct grammar_cache;

/* NULL: out of memory. */
struct grammar_cache *grammar_cache_create(size_t max_bytes);
void grammar_cache_destroy(struct grammar_cache *cache);

struct grammar_cache_counts {
    uint64_t hits, misses; /* look-ups so far */
    uint64_t dropped;      /* entries that left because others needed their room */
    size_t entries, bytes; /* now */
};
void grammar_cache_count(struct grammar_cache *cache, struct grammar_cache_counts *counts);

/*
 * The blob (proto/grammar_blob.h) of this key, compiled if it is not cached; `cache` NULL: always.
 * `key` describes all that `compile` depends on. On RESULT_OK *grammar is a reference of the
 * caller's, and *note is one to the compiler's note, or NULL if that is empty. RESULT_INVALID:
 * refused, *error says why. RESULT_TOO_LARGE: it takes too much work or memory, *error says so.
 * RESULT_CANCELLED, RESULT_OUT_OF_MEMORY. `cancelled` may be NULL.
 */
enum result grammar_cache_find(struct grammar_cache *cache, const char *key, size_t key_bytes,
                               const atomic_bool *cancelled, grammar_compiler *compile,
                               void *context, struct shared_bytes **grammar,
                               struct shared_bytes **note,
                               struct grammar_error *error) RESULT_CHECKED;

#endif
