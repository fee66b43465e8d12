/*
 * The blocks of one sequence in one cache group. Logical block b holds positions [b *
 * KV_BLOCK_TOKENS, (b + 1) * KV_BLOCK_TOKENS) and maps to a physical block or to KV_BLOCK_NONE.
 *
 *   [0, first_held)         KV_BLOCK_NONE: before the window; given back or never taken
 *   [first_held, covered)   held with one reference each; other sequences may hold them too
 */
#ifndef SHOAL_WORKER_CACHE_BLOCK_TABLE_H
#define SHOAL_WORKER_CACHE_BLOCK_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/cache/kv_block_pool.h"
#include "worker/plan/kv_layout.h"

struct block_table {
    uint32_t *blocks;      /* [capacity] read by the backend */
    uint32_t *generations; /* [capacity] */
    uint32_t capacity;
    uint32_t first_held;
    uint32_t covered;
};

/* Blocks that `tokens` positions fill. */
uint32_t block_table_blocks(uint32_t tokens);

/* Reserves memory for a sequence of up to `tokens` positions; a zeroed struct is an empty table.
 * Held blocks stay held. */
enum result block_table_reserve(struct block_table *table, uint32_t tokens) RESULT_CHECKED;
/* Frees the table's memory; no block may be held. */
void block_table_fini(struct block_table *table);

/* Takes blocks until positions [0, tokens) are covered. `tokens` is within the reserve, and the
 * pool has enough free blocks (block_table_missing()). */
void block_table_extend(struct block_table *table, struct kv_block_pool *pool, uint32_t tokens);
/* Blocks that block_table_extend() would take. */
uint32_t block_table_missing(const struct block_table *table, uint32_t tokens);

/* For an empty table: marks blocks [0, count) as given back. */
void block_table_skip(struct block_table *table, uint32_t count);
/* Appends an existing block and adds a reference to it. */
void block_table_share(struct block_table *table, struct kv_block_pool *pool,
                       struct kv_block_ref ref);
/* Replaces the held logical block `at` by another block with the same contents. */
void block_table_replace(struct block_table *table, struct kv_block_pool *pool, uint32_t at,
                         struct kv_block_ref ref);

/* Gives back the first held block. */
void block_table_give_first(struct block_table *table, struct kv_block_pool *pool,
                            enum kv_evict_order order);
/* Gives back the blocks after those that `tokens` positions fill, last block first. */
void block_table_cut(struct block_table *table, struct kv_block_pool *pool, uint32_t tokens);
/* Gives back all blocks, last block first, so that the cache evicts the end of a sequence before
 * the blocks that precede it. The table is empty afterwards. */
void block_table_give_all(struct block_table *table, struct kv_block_pool *pool);

uint32_t block_table_held(const struct block_table *table);
/* Whether logical block `at` is held. */
bool block_table_holds(const struct block_table *table, uint32_t at);
/* Reference of logical block `at`, which must be held. */
struct kv_block_ref block_table_ref(const struct block_table *table, uint32_t at);

#endif
