/*
 * The block pools of all cache groups of one worker, side by side with the layout that says what
 * they are for, the slots of recurrent state, and the prefixes that were computed before.
 */
#ifndef SHOAL_WORKER_CACHE_KV_POOLS_H
#define SHOAL_WORKER_CACHE_KV_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/cache/feature_cache.h"
#include "worker/cache/kv_block_pool.h"
#include "worker/cache/prefix_cache.h"
#include "worker/plan/kv_layout.h"

struct kv_pools {
    const struct kv_layout *layout; /* outlives the pools */
    struct kv_block_pool *group[KV_GROUPS_MAX];
    struct kv_block_pool *state; /* slots (state_layout.h); NULL: the model has no such state */
    struct kv_block_pool *checkpoints; /* more slots, behind these; NULL: none */
    struct prefix_cache *prefixes;     /* of these pools; NULL: nothing is kept */
    struct feature_cache *features;    /* of pictures, the engine's; NULL: the model sees nothing */
};

struct kv_pools_options {
    const struct kv_layout *layout;
    uint32_t blocks[KV_GROUPS_MAX];
    uint32_t state_slots;      /* 0 for a model without recurrent layers */
    uint32_t checkpoint_slots; /* that keep states for the prefix cache; 0: none */
    bool keeps_prefixes;
};
/* RESULT_OUT_OF_MEMORY when the bookkeeping does not fit. */
enum result kv_pools_init(struct kv_pools *pools,
                          const struct kv_pools_options *options) RESULT_CHECKED;
/* Every block and slot must have been given back, but for those that are idle. */
void kv_pools_fini(struct kv_pools *pools);

/* Blocks of a group that may be taken: free ones, and idle ones, which the cache gives up. */
uint32_t kv_pools_available(const struct kv_pools *pools, uint32_t group);
/* Makes `count` blocks of a group free; so many are available. */
void kv_pools_make_room(struct kv_pools *pools, uint32_t group, uint32_t count);

/* Blocks over all groups: all, those that sequences hold, those that only the cache has. */
uint64_t kv_pools_total(const struct kv_pools *pools);
uint64_t kv_pools_used(const struct kv_pools *pools);
uint64_t kv_pools_cached(const struct kv_pools *pools);

#endif
