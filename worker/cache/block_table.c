/*
 * Maps a sequence's positions to physical blocks. A sequence grows by whole blocks at its end and,
 * in sliding-window groups, gives back whole blocks at its beginning, so a table is an array with
 * two marks. Block ids have an array of their own because the backend reads exactly that array; the
 * generations, which prove ownership to the pool, are kept in a second array.
 *
 * The arrays are reserved for the sequence's maximum length when it is admitted, so steps never
 * allocate. How far back a query sees is decided in kv_layout_first_block().
 */
#include "worker/cache/block_table.h"

#include <stdlib.h>

#include "proto/must.h"

uint32_t block_table_blocks(uint32_t tokens)
{
    return tokens / KV_BLOCK_TOKENS + (tokens % KV_BLOCK_TOKENS > 0);
}

enum result block_table_reserve(struct block_table *table, uint32_t tokens)
{
    uint32_t capacity = block_table_blocks(tokens);
    if (capacity <= table->capacity)
        return RESULT_OK;
    uint32_t *blocks = realloc(table->blocks, capacity * sizeof *blocks);
    if (!blocks)
        return RESULT_OUT_OF_MEMORY;
    table->blocks = blocks;
    uint32_t *generations = realloc(table->generations, capacity * sizeof *generations);
    if (!generations)
        return RESULT_OUT_OF_MEMORY;
    table->generations = generations;
    table->capacity = capacity;
    return RESULT_OK;
}

void block_table_fini(struct block_table *table)
{
    must(block_table_held(table) == 0);
    free(table->blocks);
    free(table->generations);
    *table = (struct block_table){0};
}

static void append(struct block_table *table, struct kv_block_ref ref)
{
    must(table->covered < table->capacity);
    table->blocks[table->covered] = ref.block;
    table->generations[table->covered] = ref.generation;
    table->covered++;
}

void block_table_extend(struct block_table *table, struct kv_block_pool *pool, uint32_t tokens)
{
    uint32_t wanted = block_table_blocks(tokens);
    while (table->covered < wanted) {
        struct kv_block_ref ref;
        enum result result = kv_block_pool_take(pool, &ref);
        must(result == RESULT_OK);
        append(table, ref);
    }
}

uint32_t block_table_missing(const struct block_table *table, uint32_t tokens)
{
    uint32_t wanted = block_table_blocks(tokens);
    return wanted > table->covered ? wanted - table->covered : 0;
}

void block_table_skip(struct block_table *table, uint32_t count)
{
    must(table->covered == 0 && count <= table->capacity);
    for (uint32_t at = 0; at < count; at++)
        table->blocks[at] = KV_BLOCK_NONE;
    table->first_held = table->covered = count;
}

void block_table_share(struct block_table *table, struct kv_block_pool *pool,
                       struct kv_block_ref ref)
{
    kv_block_pool_share(pool, ref);
    append(table, ref);
}

void block_table_replace(struct block_table *table, struct kv_block_pool *pool, uint32_t at,
                         struct kv_block_ref ref)
{
    kv_block_pool_share(pool, ref);
    kv_block_pool_give(pool, block_table_ref(table, at), KV_EVICT_LAST);
    table->blocks[at] = ref.block;
    table->generations[at] = ref.generation;
}

void block_table_give_first(struct block_table *table, struct kv_block_pool *pool,
                            enum kv_evict_order order)
{
    kv_block_pool_give(pool, block_table_ref(table, table->first_held), order);
    table->blocks[table->first_held++] = KV_BLOCK_NONE;
}

void block_table_cut(struct block_table *table, struct kv_block_pool *pool, uint32_t tokens)
{
    uint32_t wanted = block_table_blocks(tokens);
    for (; table->covered > wanted && table->covered > table->first_held; table->covered--)
        kv_block_pool_give(pool, block_table_ref(table, table->covered - 1), KV_EVICT_FIRST);
}

void block_table_give_all(struct block_table *table, struct kv_block_pool *pool)
{
    while (table->covered > table->first_held) {
        kv_block_pool_give(pool, block_table_ref(table, table->covered - 1), KV_EVICT_LAST);
        table->covered--;
    }
    table->first_held = 0;
    table->covered = 0;
}

uint32_t block_table_held(const struct block_table *table)
{
    return table->covered - table->first_held;
}

bool block_table_holds(const struct block_table *table, uint32_t at)
{
    return at >= table->first_held && at < table->covered;
}

struct kv_block_ref block_table_ref(const struct block_table *table, uint32_t at)
{
    must(block_table_holds(table, at));
    return (struct kv_block_ref){.block = table->blocks[at], .generation = table->generations[at]};
}
