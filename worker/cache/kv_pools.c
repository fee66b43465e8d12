/*
 * Creates and destroys the pools together. Sequences are unknown here: a block table
 * (block_table.h) is given the pool that it takes from.
 */
#include "worker/cache/kv_pools.h"

#include <stddef.h>
#include <string.h>

#include "proto/must.h"

/* The pools write their eviction order into the ledger. */
static void set_stamps(const struct prefix_pools *pools)
{
    for (uint32_t store = 0; store < PREFIX_STORES; store++) {
        if (!pools->store[store])
            continue;
        struct kv_ledger_record *records = kv_ledger_records(pools->ledger, store);
        kv_block_pool_set_stamps(pools->store[store], &records->stamp, sizeof *records);
    }
}

enum result kv_pools_init(struct kv_pools *pools, const struct kv_pools_options *options)
{
    *pools = (struct kv_pools){.layout = options->layout};
    enum result result = RESULT_OK;
    for (uint32_t group = 0; group < pools->layout->group_count && result == RESULT_OK; group++)
        result = kv_block_pool_create(options->blocks[group], &pools->group[group]);
    if (result == RESULT_OK && options->state_slots > 0)
        result = kv_block_pool_create(options->state_slots, &pools->state);
    if (result == RESULT_OK && options->checkpoint_slots > 0)
        result = kv_block_pool_create(options->checkpoint_slots, &pools->checkpoints);
    if (result == RESULT_OK && options->keeps_prefixes) {
        struct prefix_pools kept = {.layout = pools->layout, .ledger = options->ledger};
        memcpy(kept.store, pools->group, sizeof pools->group);
        kept.store[PREFIX_CHECKPOINT] = pools->checkpoints;
        if (options->ledger)
            set_stamps(&kept);
        result = prefix_cache_create(&kept, &pools->prefixes);
    }
    if (result != RESULT_OK)
        kv_pools_fini(pools);
    return result;
}

void kv_pools_fini(struct kv_pools *pools)
{
    prefix_cache_destroy(pools->prefixes);
    pools->prefixes = NULL;
    for (uint32_t group = 0; group < KV_GROUPS_MAX; group++) {
        kv_block_pool_destroy(pools->group[group]);
        pools->group[group] = NULL;
    }
    kv_block_pool_destroy(pools->checkpoints);
    kv_block_pool_destroy(pools->state);
    pools->checkpoints = NULL;
    pools->state = NULL;
}

uint32_t kv_pools_available(const struct kv_pools *pools, uint32_t group)
{
    return kv_block_pool_free(pools->group[group]) + kv_block_pool_idle(pools->group[group]);
}

void kv_pools_make_room(struct kv_pools *pools, uint32_t group, uint32_t count)
{
    while (kv_block_pool_free(pools->group[group]) < count)
        must(pools->prefixes && prefix_cache_evict(pools->prefixes, group));
}

uint64_t kv_pools_total(const struct kv_pools *pools)
{
    uint64_t total = 0;
    for (uint32_t group = 0; group < pools->layout->group_count; group++)
        total += kv_block_pool_total(pools->group[group]);
    return total;
}

uint64_t kv_pools_cached(const struct kv_pools *pools)
{
    uint64_t cached = 0;
    for (uint32_t group = 0; group < pools->layout->group_count; group++)
        cached += kv_block_pool_idle(pools->group[group]);
    return cached;
}

uint64_t kv_pools_used(const struct kv_pools *pools)
{
    uint64_t available = 0;
    for (uint32_t group = 0; group < pools->layout->group_count; group++)
        available += kv_pools_available(pools, group);
    return kv_pools_total(pools) - available;
}

struct kv_pools_part kv_pools_count(const struct kv_pools *pools, uint64_t first, uint32_t count)
{
    struct kv_pools_part part = {0, 0};
    uint64_t begin = 0; /* of the group */
    for (uint32_t group = 0; group < pools->layout->group_count; group++) {
        const struct kv_block_pool *pool = pools->group[group];
        uint64_t end = begin + kv_block_pool_total(pool);
        while (count > 0 && first < end) {
            uint32_t block = (uint32_t)(first - begin);
            part.used += kv_block_pool_references(pool, block) > 0;
            part.cached += kv_block_pool_is_idle(pool, block);
            first++;
            count--;
        }
        begin = end;
    }
    must(count == 0);
    return part;
}
