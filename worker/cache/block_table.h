/*
 * One sequence's blocks in one cache group: logical block b holds positions b * KV_BLOCK_TOKENS …
 * and maps to a physical block, or to KV_BLOCK_NONE where it was given back.
 *
 *   [0, first_held)             KV_BLOCK_NONE: behind the window, given back or never had
 *   [first_held, covered)       held, one reference each; others may hold them too
 */
#ifndef SHOAL_WORKER_CACHE_BLOCK_TABLE_H
#define SHOAL_WORKER_CACHE_BLOCK_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/cache/kv_block_pool.h"
#include "worker/plan/kv_layout.h"

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

/* Of an empty table: as if blocks [0, count) had been given back. */
void block_table_skip(struct block_table *table, uint32_t count);
/* The next block is one that is there already: one more reference to it. */
void block_table_share(struct block_table *table, struct kv_block_pool *pool,
                       struct kv_block_ref ref);
/* Logical block `at`, held, becomes a block that is there already and holds the same. */
void block_table_replace(struct block_table *table, struct kv_block_pool *pool, uint32_t at,
                         struct kv_block_ref ref);

/* Gives back the first held block. */
void block_table_give_first(struct block_table *table, struct kv_block_pool *pool,
                            enum kv_block_turn turn);
/* Gives back everything, the last block first: of what is kept, the end of a sequence should go
 * before what it follows. The table is empty again. */
void block_table_give_all(struct block_table *table, struct kv_block_pool *pool);

uint32_t block_table_held(const struct block_table *table);
/* Whether logical block `at` is held. */
bool block_table_holds(const struct block_table *table, uint32_t at);
/* Logical block `at`, which is held. */
struct kv_block_ref block_table_ref(const struct block_table *table, uint32_t at);

#endif
