/*
 * Full KV blocks that were computed for earlier requests, found by all tokens up to their end. A
 * sequence that begins with the same tokens shares the blocks instead of computing them.
 *
 * A *place* is one block of one prefix. Its name is a 128-bit hash, keyed by a random number that
 * belongs to the pools' memory (the ledger has it) or to this worker process, over
 *
 *   the name of the parent place, which is the block before it
 *   the block's 16 token ids
 *   the content of ids that are not text (content hashes of images)
 *
 * The parent of a first block is a root made from the tenant's salt. Tenants never share blocks and
 * cannot find out what others have asked. A look-up by name also compares parent, tokens and
 * content.
 *
 * A place has up to one block in each cache group (a block of a sliding-window group may be gone
 * while those of the full groups are still there) and perhaps a checkpoint: the recurrent state
 * after its last token. The groups and the checkpoints are the *stores*. A place that has nothing
 * left in any store is removed.
 *
 * The pools own the blocks and their eviction order (kv_block_pool.h): a kept block without
 * references is idle, and the least recently used idle block is evicted first. Sequences give their
 * blocks back last block first, so a place is never evicted before the places that follow it.
 */
#ifndef SHOAL_WORKER_CACHE_PREFIX_CACHE_H
#define SHOAL_WORKER_CACHE_PREFIX_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/cache/kv_block_pool.h"
#include "worker/cache/kv_ledger.h"
#include "worker/cache/prefix_block.h"

struct prefix_cache;

/* The pools of the blocks and slots that the cache keeps. They and the layout outlive the cache. */
struct prefix_pools {
    const struct kv_layout *layout;
    struct kv_block_pool *store[PREFIX_STORES]; /* NULL: no such store */
    struct kv_ledger *ledger; /* records for the next worker what is kept; NULL: none */
};

/* RESULT_OUT_OF_MEMORY if the tables (about 200 bytes a block) cannot be allocated; nothing is
 * allocated later. */
enum result prefix_cache_create(const struct prefix_pools *pools,
                                struct prefix_cache **cache) RESULT_CHECKED;
/* Drops everything that is kept. NULL is fine. */
void prefix_cache_destroy(struct prefix_cache *cache);

struct prefix_restored {
    uint32_t blocks;    /* blocks and checkpoints of an earlier worker that are cached now */
    uint32_t damaged;   /* whose record is not valid */
    uint32_t redundant; /* of which another copy was restored before */
};
/* Reads the ledger: every committed block and checkpoint of an earlier worker becomes idle, in the
 * eviction order that the ledger gives. For a cache and pools that nothing has used yet. */
struct prefix_restored prefix_cache_restore(struct prefix_cache *cache);
/* Ends writing to the ledger, whose contents stay as they are. */
void prefix_cache_detach(struct prefix_cache *cache);

/* The root for this salt: the parent of first blocks. */
struct prefix_name prefix_cache_root(const struct prefix_cache *cache, const uint32_t salt[4]);
struct prefix_name prefix_cache_name(const struct prefix_cache *cache,
                                     const struct prefix_block *block);

#define PREFIX_PLACE_NONE UINT32_MAX
/* The place of that name if it exists and is made of `block`; valid until the next call that is not
 * const. PREFIX_PLACE_NONE: there is none. */
uint32_t prefix_cache_find(const struct prefix_cache *cache, struct prefix_name name,
                           const struct prefix_block *block);
/* The same, but adds the place if it is missing; the caller must keep something in it next.
 * PREFIX_PLACE_NONE only if another block has the same name (a collision of 128-bit hashes). */
uint32_t prefix_cache_add(struct prefix_cache *cache, struct prefix_name name,
                          const struct prefix_block *block);

/* The block or slot of a place in a store; false if it has none. */
bool prefix_cache_has(const struct prefix_cache *cache, uint32_t place, uint32_t store,
                      struct kv_block_ref *ref);
/* Keeps a block or slot that the caller holds; the place must have none in that store. */
void prefix_cache_keep(struct prefix_cache *cache, uint32_t place, uint32_t store,
                       struct kv_block_ref ref);
/* Whether a death of the worker leaves the place's block or slot to the next one; true if there is no
 * ledger. False if the place has none, or while a step that writes it is under way. */
bool prefix_cache_is_recorded(const struct prefix_cache *cache, uint32_t place, uint32_t store);
/* Ends keeping the place's block in a store; sequences that hold the block keep holding it. */
void prefix_cache_drop(struct prefix_cache *cache, uint32_t place, uint32_t store);

/* Evicts the least recently used idle block of `store`, which becomes free. With a block of a FULL
 * group, the other idle blocks of its place are evicted too. False: nothing is idle. */
bool prefix_cache_evict(struct prefix_cache *cache, uint32_t store);
/* Drops everything that is kept. Blocks held by sequences stay held. */
void prefix_cache_reset(struct prefix_cache *cache);

struct prefix_cache_figures {
    uint32_t places;
    uint64_t evictions; /* evicted blocks and checkpoints */
};
struct prefix_cache_figures prefix_cache_figures(const struct prefix_cache *cache);

#endif
