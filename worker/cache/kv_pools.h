/*
 * The block pools of all cache groups of one worker, side by side with the layout that says what
 * they are for, and the slots of recurrent state.
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
    struct kv_block_pool *state; /* slots (state_layout.h); NULL: the model has no such state */
};

/* `state_slots` is 0 for a model without recurrent layers. */
enum result kv_pools_init(struct kv_pools *pools, const struct kv_layout *layout,
                          const uint32_t blocks[KV_GROUPS_MAX],
                          uint32_t state_slots) RESULT_CHECKED;
/* Every block and slot must have been given back. */
void kv_pools_fini(struct kv_pools *pools);

/* Blocks over all groups. */
uint64_t kv_pools_total(const struct kv_pools *pools);
uint64_t kv_pools_used(const struct kv_pools *pools);

#endif
