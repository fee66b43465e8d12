/*
 * The physical blocks of one cache group: a fixed number, reference counted, taken and given in
 * O(1). Which bytes a block id stands for is the backend's business.
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

/* RESULT_OUT_OF_MEMORY when the bookkeeping (12 bytes a block) does not fit. block_count > 0. */
enum result kv_block_pool_create(uint32_t block_count, struct kv_block_pool **pool) RESULT_CHECKED;
/* Every block must have been given back. */
void kv_block_pool_destroy(struct kv_block_pool *pool);

/* One free block with one reference; RESULT_FULL when none is left. */
enum result kv_block_pool_take(struct kv_block_pool *pool, struct kv_block_ref *ref) RESULT_CHECKED;
/* One more reference to a held block. */
void kv_block_pool_share(struct kv_block_pool *pool, struct kv_block_ref ref);
/* One reference less; the last one frees the block. */
void kv_block_pool_give(struct kv_block_pool *pool, struct kv_block_ref ref);

uint32_t kv_block_pool_total(const struct kv_block_pool *pool);
uint32_t kv_block_pool_free(const struct kv_block_pool *pool);
/* References to a block, for checks and tests; 0 for a free one. */
uint32_t kv_block_pool_references(const struct kv_block_pool *pool, uint32_t block);

#endif
