/*
 * The block pools of all cache groups of one worker, side by side with the layout that says what
 * they are for.
 */
#ifndef SHOAL_WORKER_CACHE_KV_POOLS_H
#define SHOAL_WORKER_CACHE_KV_POOLS_H

#include <stdint.h>

#include "proto/result.h"
#include "worker/cache/kv_block_pool.h"
#include "worker/cache/kv_layout.h"

struct kv_pools {
    const struct kv_layout *layout; /* outlives the pools */
    struct kv_block_pool *group[KV_GROUPS_MAX];
};

enum result kv_pools_init(struct kv_pools *pools, const struct kv_layout *layout,
                          const uint32_t blocks[KV_GROUPS_MAX]) RESULT_CHECKED;
/* Every block must have been given back. */
void kv_pools_fini(struct kv_pools *pools);

/* Over all groups. */
uint64_t kv_pools_total(const struct kv_pools *pools);
uint64_t kv_pools_used(const struct kv_pools *pools);

#endif
