/*
 * Applies merges to a row of tokens: always the lowest rank first, the leftmost of equals, until
 * none applies.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_BPE_MERGER_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_BPE_MERGER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/prompt/tokenizer/bpe_merge_table.h"
#include "proto/result.h"

/* Working memory that one thread reuses between pieces; zero-initialized. */
struct bpe_merger {
    uint32_t *next;  /* [capacity] index of the neighbour to the right; 0 ends the row */
    uint32_t *prev;  /* [capacity] */
    uint32_t *ranks; /* [capacity] rank of the pair that starts here */
    uint64_t *heap;  /* [heap_capacity] rank << 32 | index */
    size_t capacity;
    size_t heap_capacity;
    size_t heap_count;
    const atomic_bool *cancelled; /* NULL, or true once a long row is to end */
};
void bpe_merger_fini(struct bpe_merger *merger);

/* Merges ids[0..count) in place; returns the new count in *merged_count. O(n log n).
 * RESULT_OUT_OF_MEMORY, RESULT_CANCELLED. */
enum result bpe_merger_run(struct bpe_merger *merger, const struct bpe_merge_table *table,
                           uint32_t ids[], size_t count, size_t *merged_count) RESULT_CHECKED;

#endif
