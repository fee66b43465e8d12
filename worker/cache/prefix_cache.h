/*
 * What was computed before and is still there: full KV blocks, found by all the tokens up to their
 * end. A sequence that begins with the same tokens shares the blocks instead of computing them.
 *
 * A *place* is one block of one prefix. Its name is a chained hash of 128 bits under a key of this
 * worker's own: of the name of the place before it, its 16 token ids and what stands behind ids
 * that are not text (content hashes of images). The first place's parent is a root, which is made
 * of the tenant's salt: tenants never share, and cannot find out what others have asked. Whoever
 * finds a place by its name has its tokens, content and parent compared as well.
 *
 * A place has a block in each cache group, or in some of them (a sliding group's may be gone while
 * the full ones' stay), and perhaps a checkpoint of recurrent state: the state behind its last
 * token. These are its *stores*. A place is forgotten when it has nothing in any store.
 *
 * The pools own the blocks and their order of going (kv_block_pool.h): a kept block that nobody
 * holds is idle, and the idle block that was of use longest ago is given up first. Whoever lets go
 * of a sequence's blocks gives its last one back first, so a place never goes before those that
 * follow it.
 */
#ifndef SHOAL_WORKER_CACHE_PREFIX_CACHE_H
#define SHOAL_WORKER_CACHE_PREFIX_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/cache/kv_block_pool.h"
#include "worker/plan/kv_layout.h"

/* Stores are the cache groups, and the checkpoints of recurrent state. */
#define PREFIX_CHECKPOINT KV_GROUPS_MAX
#define PREFIX_STORES     (KV_GROUPS_MAX + 1u)

struct prefix_cache;

/* The pools whose blocks and slots the cache keeps. They and the layout outlive the cache. */
struct prefix_pools {
    const struct kv_layout *layout;
    struct kv_block_pool *store[PREFIX_STORES]; /* NULL: no such store */
};

/* RESULT_OUT_OF_MEMORY if the tables (about 200 bytes a block) do not fit; nothing is allocated
 * later. */
enum result prefix_cache_create(const struct prefix_pools *pools,
                                struct prefix_cache **cache) RESULT_CHECKED;
/* Lets everything go. NULL is fine. */
void prefix_cache_destroy(struct prefix_cache *cache);

struct prefix_name {
    uint64_t words[2];
};

/* What a place is made of. */
struct prefix_block {
    struct prefix_name parent;
    uint32_t tokens[KV_BLOCK_TOKENS];
    uint64_t content[2]; /* zeros: nothing but text */
};

/* The parent of the first place of everything with this salt. */
struct prefix_name prefix_cache_root(const struct prefix_cache *cache, const uint32_t salt[4]);
struct prefix_name prefix_cache_name(const struct prefix_cache *cache,
                                     const struct prefix_block *block);

#define PREFIX_PLACE_NONE UINT32_MAX
/* The place of that name if it is there and made of `block`; good until the next call that is not
 * const. */
uint32_t prefix_cache_find(const struct prefix_cache *cache, struct prefix_name name,
                           const struct prefix_block *block);
/* The same, and it is made if it is not there: something must be kept in it next. NONE when another
 * block has that name, which nobody lives to see. */
uint32_t prefix_cache_add(struct prefix_cache *cache, struct prefix_name name,
                          const struct prefix_block *block);

/* What a place has in a store; false: nothing. */
bool prefix_cache_has(const struct prefix_cache *cache, uint32_t place, uint32_t store,
                      struct kv_block_ref *ref);
/* Keeps a block or slot that the caller holds, where the place has none in that store. */
void prefix_cache_keep(struct prefix_cache *cache, uint32_t place, uint32_t store,
                       struct kv_block_ref ref);
/* Gives up what the place has in a store; who holds it goes on holding it. */
void prefix_cache_drop(struct prefix_cache *cache, uint32_t place, uint32_t store);

/* Gives up the idle block of `store` that was of use longest ago, so that it is free; with a block
 * of a FULL group, also what else is idle of its place. False: nothing is idle. */
bool prefix_cache_evict(struct prefix_cache *cache, uint32_t store);
/* Gives up everything. What sequences hold stays theirs. */
void prefix_cache_reset(struct prefix_cache *cache);

struct prefix_cache_figures {
    uint32_t places;
    uint64_t evictions; /* blocks and checkpoints given up for others */
};
struct prefix_cache_figures prefix_cache_figures(const struct prefix_cache *cache);

#endif
