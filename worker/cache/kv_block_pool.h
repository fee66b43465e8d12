/*
 * The physical blocks of one cache group: a fixed number, reference counted, taken and given back
 * in O(1). The backend decides which bytes a block id stands for.
 *
 * The prefix cache may mark a block as *kept* (prefix_cache.h). A kept block is not freed with its
 * last reference: it becomes idle, can be shared again, and is freed when it is dropped. Idle
 * blocks are listed in eviction order.
 *
 *            take               give the last reference, not kept
 *     free ────────▶ held ───────────────────────────────▶ free
 *                    │  ▲ share                              ▲
 *   give the last,   ▼  │              drop                  │
 *   kept            idle ────────────────────────────────────┘
 *
 * A block's generation grows each time it becomes free. must() aborts when a stale reference is
 * given back.
 */
#ifndef SHOAL_WORKER_CACHE_KV_BLOCK_POOL_H
#define SHOAL_WORKER_CACHE_KV_BLOCK_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

struct kv_block_ref {
    uint32_t block;
    uint32_t generation;
};

struct kv_block_pool;

/* RESULT_OUT_OF_MEMORY if the bookkeeping (24 bytes a block) cannot be allocated. block_count > 0.
 */
enum result kv_block_pool_create(uint32_t block_count, struct kv_block_pool **pool) RESULT_CHECKED;
/* Every block must be free. */
void kv_block_pool_destroy(struct kv_block_pool *pool);

/* Where the pool writes a *stamp* for each block: stamps [block_count], `stride_bytes` apart, which
 * outlive the pool. In ascending order of stamps, kept blocks are in eviction order: idle ones as
 * listed, then held ones with the last part of a sequence first. */
void kv_block_pool_set_stamps(struct kv_block_pool *pool, uint64_t *stamps, size_t stride_bytes);
/* Before anything is taken: makes a block idle, as the last in eviction order. After the last one,
 * kv_block_pool_restore_end() must follow. */
struct kv_block_ref kv_block_pool_restore(struct kv_block_pool *pool, uint32_t block);
void kv_block_pool_restore_end(struct kv_block_pool *pool);

/* Takes one free block with one reference; RESULT_FULL if no block is free. Idle blocks are not
 * taken. */
enum result kv_block_pool_take(struct kv_block_pool *pool, struct kv_block_ref *ref) RESULT_CHECKED;
/* Adds a reference to a held or idle block. */
void kv_block_pool_share(struct kv_block_pool *pool, struct kv_block_ref ref);
/* Where a block enters the eviction order of idle blocks. */
enum kv_evict_order {
    KV_EVICT_LAST, /* evicted after all blocks that are idle now */
    KV_EVICT_FIRST /* evicted before them */
};
/* Drops one reference. The last one frees the block or, if it is kept, makes it idle. */
void kv_block_pool_give(struct kv_block_pool *pool, struct kv_block_ref ref,
                        enum kv_evict_order order);

/* Marks a held block as kept. */
void kv_block_pool_keep(struct kv_block_pool *pool, struct kv_block_ref ref);
/* Ends keeping a block; an idle block becomes free. */
void kv_block_pool_drop(struct kv_block_pool *pool, struct kv_block_ref ref);
/* The first idle block in eviction order; RESULT_EMPTY if none is idle. */
enum result kv_block_pool_oldest(const struct kv_block_pool *pool,
                                 struct kv_block_ref *ref) RESULT_CHECKED;

uint32_t kv_block_pool_total(const struct kv_block_pool *pool);
uint32_t kv_block_pool_free(const struct kv_block_pool *pool);
uint32_t kv_block_pool_idle(const struct kv_block_pool *pool);
/* References to a block; 0 for a free or an idle one. */
uint32_t kv_block_pool_references(const struct kv_block_pool *pool, uint32_t block);
bool kv_block_pool_is_idle(const struct kv_block_pool *pool, uint32_t block);

#endif
