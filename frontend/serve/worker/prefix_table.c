/*
 * Remembers which prompts were sent to a worker, as hashes, because the frontend cannot see a
 * worker's cache: the continuation of a prompt is best sent to the worker that computed its
 * beginning.
 *
 * The table has a fixed number of places in sets of four; a new hash replaces the least recently
 * used one of its set. A chain can lose a block in the middle that way, and a look-up can be wrong:
 * it guides routing only, so a wrong result costs time, never an answer.
 */
#include "frontend/serve/worker/prefix_table.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

#define SET_COUNT 4096u /* with WAYS places of 16 bytes: 256 kB for each worker */
#define WAYS      4u

struct prefix_place {
    uint64_t hash;
    uint64_t used_at; /* 0: empty */
};

struct prefix_table {
    uint64_t now; /* number of uses so far */
    struct prefix_place places[SET_COUNT][WAYS];
};

uint32_t prefix_blocks_hash(const struct keyed_hash_key *key, const uint32_t *ids, size_t count,
                            uint64_t hashes[PREFIX_BLOCKS_MAX])
{
    struct {
        uint64_t before;
        uint32_t ids[PREFIX_BLOCK_TOKENS];
    } block = {0};
    uint32_t blocks = 0;
    for (; blocks < PREFIX_BLOCKS_MAX && (blocks + 1) * PREFIX_BLOCK_TOKENS <= count; blocks++) {
        memcpy(block.ids, ids + (size_t)blocks * PREFIX_BLOCK_TOKENS, sizeof block.ids);
        block.before = keyed_hash(key, &block, sizeof block);
        hashes[blocks] = block.before;
    }
    return blocks;
}

struct prefix_table *prefix_table_create(void)
{
    return must_alloc(1, sizeof(struct prefix_table));
}

void prefix_table_destroy(struct prefix_table *table)
{
    free(table);
}

void prefix_table_clear(struct prefix_table *table)
{
    memset(table, 0, sizeof *table);
}

uint32_t prefix_table_shared(const struct prefix_table *table, const uint64_t *hashes,
                             uint32_t count)
{
    for (uint32_t block = 0; block < count; block++) {
        const struct prefix_place *set = table->places[hashes[block] % SET_COUNT];
        uint32_t way = 0;
        while (way < WAYS && (set[way].used_at == 0 || set[way].hash != hashes[block]))
            way++;
        if (way == WAYS)
            return block;
    }
    return count;
}

void prefix_table_add(struct prefix_table *table, const uint64_t *hashes, uint32_t count)
{
    for (uint32_t block = 0; block < count; block++) {
        struct prefix_place *set = table->places[hashes[block] % SET_COUNT];
        uint32_t chosen = 0;
        for (uint32_t way = 0; way < WAYS; way++) {
            if (set[way].used_at > 0 && set[way].hash == hashes[block]) {
                chosen = way;
                break;
            }
            if (set[way].used_at < set[chosen].used_at)
                chosen = way;
        }
        set[chosen] = (struct prefix_place){.hash = hashes[block], .used_at = ++table->now};
    }
}
