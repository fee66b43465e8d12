/*
 * The merges of a BPE vocabulary: which two adjacent tokens become which token, and which merge
 * comes first.
 *
 * A pair of ids finds its rank in one probe of a hash table of 8-byte slots; the rank finds the
 * merged id in an array.
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_BPE_MERGE_TABLE_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_BPE_MERGE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"

#define BPE_NO_RANK UINT32_MAX

struct bpe_merge_table {
    uint64_t *slots;  /* left id, right id (20 bits each), rank (24 bits); all ones is free */
    uint32_t *merged; /* [merge_count] id by rank */
    uint32_t merge_count;
    uint32_t merge_capacity;
    uint32_t slot_mask;
    uint64_t seed;
};

/* `expected` merges only sizes the first allocation. */
enum result bpe_merge_table_init(struct bpe_merge_table *table, uint32_t expected) RESULT_CHECKED;
void bpe_merge_table_fini(struct bpe_merge_table *table);

/* Adds a merge with the next rank. A repeated pair takes its later rank, as in Hugging Face.
 * RESULT_TOO_LARGE over LIMIT_MERGES. */
enum result bpe_merge_table_add(struct bpe_merge_table *table, uint32_t left, uint32_t right,
                                uint32_t merged) RESULT_CHECKED;

/* BPE_NO_RANK if the pair does not merge. */
uint32_t bpe_merge_table_rank(const struct bpe_merge_table *table, uint32_t left, uint32_t right);

/* Iterates over all pairs: the pair in slot 0..slot_mask; false if the slot is free. */
bool bpe_merge_table_entry(const struct bpe_merge_table *table, uint32_t slot, uint32_t *left,
                           uint32_t *right);

#endif
