/*
 * Memory of one size, handed out by number.
 *
 * All KV memory of a group is reserved once, at load, as equal blocks. The pool only keeps the
 * book: a stack of free ids (the block freed last is taken first, while it may still be in a
 * cache), a count of references and a generation per block, and a list of those that are idle.
 * Nothing here allocates after create, so running out is a plain result that the scheduler plans
 * for.
 *
 * Refuses to wait for a block and to decide who must give one back: preemption_policy.h does that.
 */
#include "worker/cache/kv_block_pool.h"

#include <stdbool.h>
#include <stdlib.h>

#include "proto/must.h"

#define NONE UINT32_MAX

struct block_state {
    uint32_t references;
    uint32_t generation;
    uint32_t before; /* neighbours among the idle ones: goes before it, and after it */
    uint32_t after;
    bool kept;
};

struct kv_block_pool {
    uint32_t block_count;
    uint32_t free_count;
    uint32_t idle_count;
    uint32_t idle_first; /* the first to go, or NONE */
    uint32_t idle_last;
    uint32_t *free_blocks; /* [block_count] a stack; the first free_count are free */
    struct block_state *blocks;
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
        pool->free_blocks[i] = block_count - 1 - i; /* low ids first: untouched memory stays so */
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

/* The state of a block that is not free and is the one that the caller means. */
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

static void idle_link(struct kv_block_pool *pool, uint32_t id, enum kv_block_turn turn)
{
    struct block_state *block = &pool->blocks[id];
    block->before = turn == KV_BLOCK_LAST ? pool->idle_last : NONE;
    block->after = turn == KV_BLOCK_LAST ? NONE : pool->idle_first;
    if (block->before != NONE)
        pool->blocks[block->before].after = id;
    else
        pool->idle_first = id;
    if (block->after != NONE)
        pool->blocks[block->after].before = id;
    else
        pool->idle_last = id;
    pool->idle_count++;
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
    if (block->references == 0)
        idle_unlink(pool, ref.block);
    block->references++;
}

void kv_block_pool_give(struct kv_block_pool *pool, struct kv_block_ref ref,
                        enum kv_block_turn turn)
{
    struct block_state *block = occupied(pool, ref);
    must(block->references > 0);
    if (--block->references > 0)
        return;
    if (block->kept)
        idle_link(pool, ref.block, turn);
    else
        make_free(pool, ref.block);
}

void kv_block_pool_keep(struct kv_block_pool *pool, struct kv_block_ref ref)
{
    struct block_state *block = occupied(pool, ref);
    must(block->references > 0 && !block->kept);
    block->kept = true;
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
