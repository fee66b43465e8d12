/*
 * All memory books of one worker: the block pools of the cache groups with their layout, the slots
 * of recurrent state, the prefix cache and the feature cache.
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
    struct kv_block_pool
        *state; /* slots (state_layout.h); NULL: the model has no recurrent layers */
    struct kv_block_pool *checkpoints; /* slots with numbers after those of `state`; NULL: none */
    struct prefix_cache *prefixes;     /* over these pools; NULL: the prefix cache is off */
    struct feature_cache
        *features; /* of images, owned by the engine; NULL: the model takes no images */
    /* Sequences hold the features of an image after its rows are launched, for an ahead layer
     * (worker/schedule/model_drafts.h), which gives them back. */
    bool features_are_read_again;
};

struct kv_pools_options {
    const struct kv_layout *layout;
    uint32_t blocks[KV_GROUPS_MAX];
    uint32_t state_slots;      /* 0 for a model without recurrent layers */
    uint32_t checkpoint_slots; /* recurrent states kept by the prefix cache; 0: none */
    bool keeps_prefixes;
    struct kv_ledger *ledger; /* of the prefix cache's blocks, outlives the pools; NULL: none */
};
/* RESULT_OUT_OF_MEMORY if the bookkeeping cannot be allocated. */
enum result kv_pools_init(struct kv_pools *pools,
                          const struct kv_pools_options *options) RESULT_CHECKED;
/* Every block and slot must be free or idle. */
void kv_pools_fini(struct kv_pools *pools);

/* Blocks of a group that can be taken: free ones, and idle ones, which the prefix cache evicts. */
uint32_t kv_pools_available(const struct kv_pools *pools, uint32_t group);
/* Evicts idle blocks until `count` blocks of a group are free; so many must be available. */
void kv_pools_make_room(struct kv_pools *pools, uint32_t group, uint32_t count);

/* Sums over all groups: all blocks, those held by sequences, those held only by the prefix cache.
 */
uint64_t kv_pools_total(const struct kv_pools *pools);
uint64_t kv_pools_used(const struct kv_pools *pools);
uint64_t kv_pools_cached(const struct kv_pools *pools);

/* Of `count` blocks from block `first` on, in the order of the groups and their blocks: those held
 * by sequences, and those held only by the prefix cache. first + count <= kv_pools_total(). */
struct kv_pools_part {
    uint32_t used;
    uint32_t cached;
};
struct kv_pools_part kv_pools_count(const struct kv_pools *pools, uint64_t first, uint32_t count);

#endif
