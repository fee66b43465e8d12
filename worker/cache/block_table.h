/*
 * One sequence's blocks in one cache group: logical block b holds positions b * KV_BLOCK_TOKENS …
 * and maps to a physical block, or to KV_BLOCK_NONE where it was given back.
 *
 *   [0, first_held)             KV_BLOCK_NONE: behind the window, given back
 *   [first_held, covered)       held, one reference each
 */
#ifndef SHOAL_WORKER_CACHE_BLOCK_TABLE_H
#define SHOAL_WORKER_CACHE_BLOCK_TABLE_H

#include <stdint.h>

#include "proto/result.h"
#include "worker/cache/kv_block_pool.h"
#include "worker/cache/kv_layout.h"

struct block_table {
    uint32_t *blocks;      /* [capacity] what a backend reads */
    uint32_t *generations; /* [capacity] */
    uint32_t capacity;
    uint32_t first_held;
    uint32_t covered;
};

/* Blocks that `tokens` positions fill. */
uint32_t block_table_blocks(uint32_t tokens);

/* Makes room for a sequence of up to `tokens` positions; a zeroed struct is an empty table. What is
 * held stays. */
enum result block_table_reserve(struct block_table *table, uint32_t tokens) RESULT_CHECKED;
/* Frees the table's memory; nothing may be held any more. */
void block_table_fini(struct block_table *table);

/* Takes blocks until positions [0, tokens) are covered. Within the reserve; the caller has made
 * sure that the pool has them (block_table_missing()). */
void block_table_extend(struct block_table *table, struct kv_block_pool *pool, uint32_t tokens);
/* Blocks that block_table_extend() would take. */
uint32_t block_table_missing(const struct block_table *table, uint32_t tokens);

/* Gives back every held block before logical block `first_seen`. */
void block_table_give_before(struct block_table *table, struct kv_block_pool *pool,
                             uint32_t first_seen);
/* Gives back everything; the table is empty again. */
void block_table_give_all(struct block_table *table, struct kv_block_pool *pool);

uint32_t block_table_held(const struct block_table *table);

#endif
