/*
 * All KV memory of a group is reserved at load as equal blocks. The pool only keeps the books: a
 * stack of free ids (last freed, first taken, because its memory may still be in a CPU cache), a
 * reference count and a generation for each block, and a list of the idle ones. Nothing is
 * allocated after create, so running out of blocks is a result that the scheduler plans for.
 *
 * Who gives blocks back when the pool is empty is decided in preemption_policy.h.
 */
#include "worker/cache/kv_block_pool.h"

#include <stdbool.h>
#include <stdlib.h>

#include "proto/must.h"

#define NONE UINT32_MAX

struct block_state {
    uint32_t references;
    uint32_t generation;
    uint32_t before; /* neighbours in the idle list: evicted before and after this one */
    uint32_t after;
    bool kept;
};

struct kv_block_pool {
    uint32_t block_count;
    uint32_t free_count;
    uint32_t idle_count;
    uint32_t idle_first; /* evicted first, or NONE */
    uint32_t idle_last;
    uint32_t *free_blocks; /* [block_count] stack; the first free_count entries are used */
    struct block_state *blocks;
    uint8_t *stamps; /* NULL: none are written */
    size_t stamp_stride;
    uint64_t clock; /* grows with each stamp */
};

enum result kv_block_pool_create(uint32_t block_count, struct kv_block_pool **created)
{
    must(block_count > 0);
    struct kv_block_pool *pool = must_alloc(1, sizeof *pool);
    pool->free_blocks = calloc(block_count, sizeof *pool->free_blocks);
    pool->blocks = calloc(block_count, sizeof *pool->blocks);
    if (!pool->free_blocks || !pool->blocks) {
        free(pool->free_blocks);
        free(pool->blocks);
        free(pool);
        return RESULT_OUT_OF_MEMORY;
    }
    pool->block_count = block_count;
    pool->free_count = block_count;
    pool->idle_first = pool->idle_last = NONE;
    for (uint32_t i = 0; i < block_count; i++)
        pool->free_blocks[i] =
            block_count - 1 - i; /* low ids first, so that memory of high ids stays untouched */
    *created = pool;
    return RESULT_OK;
}

void kv_block_pool_destroy(struct kv_block_pool *pool)
{
    if (!pool)
        return;
    must(pool->free_count == pool->block_count);
    free(pool->free_blocks);
    free(pool->blocks);
    free(pool);
}

/* The state of a held or idle block; asserts that `ref` is current. */
static struct block_state *occupied(struct kv_block_pool *pool, struct kv_block_ref ref)
{
    must(ref.block < pool->block_count);
    struct block_state *block = &pool->blocks[ref.block];
    must(block->references > 0 || block->kept);
    must(block->generation == ref.generation);
    return block;
}

static void make_free(struct kv_block_pool *pool, uint32_t id)
{
    pool->blocks[id].generation++;
    pool->free_blocks[pool->free_count++] = id;
}

void kv_block_pool_set_stamps(struct kv_block_pool *pool, uint64_t *stamps, size_t stride_bytes)
{
    pool->stamps = (uint8_t *)stamps;
    pool->stamp_stride = stride_bytes;
}

static void write_stamp(struct kv_block_pool *pool, uint32_t id, uint64_t stamp)
{
    if (pool->stamps)
        *(uint64_t *)(void *)(pool->stamps + id * pool->stamp_stride) = stamp;
}

/* Of a block that a sequence holds, which uses its blocks from the first to the last. */
static void stamp_held(struct kv_block_pool *pool, uint32_t id)
{
    write_stamp(pool, id, UINT64_MAX - ++pool->clock);
}

static void idle_link(struct kv_block_pool *pool, uint32_t id, enum kv_evict_order order)
{
    struct block_state *block = &pool->blocks[id];
    block->before = order == KV_EVICT_LAST ? pool->idle_last : NONE;
    block->after = order == KV_EVICT_LAST ? NONE : pool->idle_first;
    if (block->before != NONE)
        pool->blocks[block->before].after = id;
    else
        pool->idle_first = id;
    if (block->after != NONE)
        pool->blocks[block->after].before = id;
    else
        pool->idle_last = id;
    pool->idle_count++;
    write_stamp(pool, id, order == KV_EVICT_LAST ? ++pool->clock : 0);
}

static void idle_unlink(struct kv_block_pool *pool, uint32_t id)
{
    const struct block_state *block = &pool->blocks[id];
    if (block->before != NONE)
        pool->blocks[block->before].after = block->after;
    else
        pool->idle_first = block->after;
    if (block->after != NONE)
        pool->blocks[block->after].before = block->before;
    else
        pool->idle_last = block->before;
    pool->idle_count--;
}

struct kv_block_ref kv_block_pool_restore(struct kv_block_pool *pool, uint32_t id)
{
    must(id < pool->block_count && pool->free_count == pool->block_count);
    struct block_state *block = &pool->blocks[id];
    must(block->references == 0 && !block->kept);
    block->kept = true;
    idle_link(pool, id, KV_EVICT_LAST);
    return (struct kv_block_ref){.block = id, .generation = block->generation};
}

void kv_block_pool_restore_end(struct kv_block_pool *pool)
{
    must(pool->free_count == pool->block_count);
    pool->free_count = 0;
    for (uint32_t i = 0; i < pool->block_count; i++) {
        uint32_t id = pool->free_blocks[i];
        if (!pool->blocks[id].kept)
            pool->free_blocks[pool->free_count++] = id;
    }
}

enum result kv_block_pool_take(struct kv_block_pool *pool, struct kv_block_ref *ref)
{
    if (pool->free_count == 0)
        return RESULT_FULL;
    uint32_t id = pool->free_blocks[--pool->free_count];
    struct block_state *block = &pool->blocks[id];
    must(block->references == 0 && !block->kept);
    block->references = 1;
    *ref = (struct kv_block_ref){.block = id, .generation = block->generation};
    return RESULT_OK;
}

void kv_block_pool_share(struct kv_block_pool *pool, struct kv_block_ref ref)
{
    struct block_state *block = occupied(pool, ref);
    must(block->references < UINT32_MAX);
    if (block->references == 0) {
        idle_unlink(pool, ref.block);
        stamp_held(pool, ref.block);
    }
    block->references++;
}

void kv_block_pool_give(struct kv_block_pool *pool, struct kv_block_ref ref,
                        enum kv_evict_order order)
{
    struct block_state *block = occupied(pool, ref);
    must(block->references > 0);
    if (--block->references > 0)
        return;
    if (block->kept)
        idle_link(pool, ref.block, order);
    else
        make_free(pool, ref.block);
}

void kv_block_pool_keep(struct kv_block_pool *pool, struct kv_block_ref ref)
{
    struct block_state *block = occupied(pool, ref);
    must(block->references > 0 && !block->kept);
    block->kept = true;
    stamp_held(pool, ref.block);
}

void kv_block_pool_drop(struct kv_block_pool *pool, struct kv_block_ref ref)
{
    struct block_state *block = occupied(pool, ref);
    must(block->kept);
    block->kept = false;
    if (block->references > 0)
        return;
    idle_unlink(pool, ref.block);
    make_free(pool, ref.block);
}

enum result kv_block_pool_oldest(const struct kv_block_pool *pool, struct kv_block_ref *ref)
{
    if (pool->idle_first == NONE)
        return RESULT_EMPTY;
    *ref = (struct kv_block_ref){.block = pool->idle_first,
                                 .generation = pool->blocks[pool->idle_first].generation};
    return RESULT_OK;
}

uint32_t kv_block_pool_total(const struct kv_block_pool *pool)
{
    return pool->block_count;
}

uint32_t kv_block_pool_free(const struct kv_block_pool *pool)
{
    return pool->free_count;
}

uint32_t kv_block_pool_idle(const struct kv_block_pool *pool)
{
    return pool->idle_count;
}

uint32_t kv_block_pool_references(const struct kv_block_pool *pool, uint32_t block)
{
    must(block < pool->block_count);
    return pool->blocks[block].references;
}

bool kv_block_pool_is_idle(const struct kv_block_pool *pool, uint32_t block)
{
    must(block < pool->block_count);
    return pool->blocks[block].kept && pool->blocks[block].references == 0;
}
