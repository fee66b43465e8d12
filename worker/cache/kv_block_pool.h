/*
 * The physical blocks of one cache group: a fixed number, reference counted, taken and given in
 * O(1). Which bytes a block id stands for is the backend's business.
 *
 * A block may be *kept*: what it holds is worth something to whoever comes later (prefix_cache.h).
 * Such a block is not freed when its last reference goes; it lies idle, may be shared again, and
 * becomes free when it is no longer kept. Idle blocks stand in the order in which they should go.
 *
 *            take              give the last, not kept
 *     free ────────▶ held ───────────────────────────────▶ free
 *                    │  ▲ share                              ▲
 *   give the last,   ▼  │              drop                  │
 *   kept            idle ────────────────────────────────────┘
 *
 * A block's generation grows each time it becomes free, so that a holder that kept a reference too
 * long is found out: giving back a block that one does not hold is a bug and aborts.
 */
#ifndef SHOAL_WORKER_CACHE_KV_BLOCK_POOL_H
#define SHOAL_WORKER_CACHE_KV_BLOCK_POOL_H

#include <stdint.h>

#include "proto/result.h"

struct kv_block_ref {
    uint32_t block;
    uint32_t generation;
};

struct kv_block_pool;

/* RESULT_OUT_OF_MEMORY when the bookkeeping (24 bytes a block) does not fit. block_count > 0. */
enum result kv_block_pool_create(uint32_t block_count, struct kv_block_pool **pool) RESULT_CHECKED;
/* Every block must be free. */
void kv_block_pool_destroy(struct kv_block_pool *pool);

/* One free block with one reference; RESULT_FULL when none is left, idle ones or not. */
enum result kv_block_pool_take(struct kv_block_pool *pool, struct kv_block_ref *ref) RESULT_CHECKED;
/* One more reference to a held or idle block. */
void kv_block_pool_share(struct kv_block_pool *pool, struct kv_block_ref ref);
/* Where a block goes among the idle ones. */
enum kv_block_turn {
    KV_BLOCK_LAST, /* it was of use just now: all that are idle go before it */
    KV_BLOCK_FIRST /* it is the first to go */
};
/* One reference less; the last one frees the block, or leaves it idle if it is kept. */
void kv_block_pool_give(struct kv_block_pool *pool, struct kv_block_ref ref,
                        enum kv_block_turn turn);

/* A held block is kept from now on. */
void kv_block_pool_keep(struct kv_block_pool *pool, struct kv_block_ref ref);
/* A kept block is no longer: if idle it is free now. */
void kv_block_pool_drop(struct kv_block_pool *pool, struct kv_block_ref ref);
/* The idle block that should go first; RESULT_EMPTY when there is none. */
enum result kv_block_pool_oldest(const struct kv_block_pool *pool,
                                 struct kv_block_ref *ref) RESULT_CHECKED;

uint32_t kv_block_pool_total(const struct kv_block_pool *pool);
uint32_t kv_block_pool_free(const struct kv_block_pool *pool);
uint32_t kv_block_pool_idle(const struct kv_block_pool *pool);
/* References to a block; 0 for a free or an idle one. */
uint32_t kv_block_pool_references(const struct kv_block_pool *pool, uint32_t block);

#endif
