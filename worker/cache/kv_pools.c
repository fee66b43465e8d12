/*
 * One pool per cache group, made together and ended together.
 *
 * Refuses to know sequences: a table (block_table.h) names the pool that it takes from.
 */
#include "worker/cache/kv_pools.h"

#include <stddef.h>

enum result kv_pools_init(struct kv_pools *pools, const struct kv_layout *layout,
                          const uint32_t blocks[KV_GROUPS_MAX], uint32_t state_slots)
{
    *pools = (struct kv_pools){.layout = layout};
    enum result result = RESULT_OK;
    for (uint32_t group = 0; group < layout->group_count && result == RESULT_OK; group++)
        result = kv_block_pool_create(blocks[group], &pools->group[group]);
    if (result == RESULT_OK && state_slots > 0)
        result = kv_block_pool_create(state_slots, &pools->state);
    if (result != RESULT_OK)
        kv_pools_fini(pools);
    return result;
}

void kv_pools_fini(struct kv_pools *pools)
{
    for (uint32_t group = 0; group < KV_GROUPS_MAX; group++) {
        kv_block_pool_destroy(pools->group[group]);
        pools->group[group] = NULL;
    }
    kv_block_pool_destroy(pools->state);
    pools->state = NULL;
}

uint64_t kv_pools_total(const struct kv_pools *pools)
{
    uint64_t total = 0;
    for (uint32_t group = 0; group < pools->layout->group_count; group++)
        total += kv_block_pool_total(pools->group[group]);
    return total;
}

uint64_t kv_pools_used(const struct kv_pools *pools)
{
    uint64_t used = 0;
    for (uint32_t group = 0; group < pools->layout->group_count; group++)
        used += kv_block_pool_total(pools->group[group]) - kv_block_pool_free(pools->group[group]);
    return used;
}
