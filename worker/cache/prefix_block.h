/*
 * The identity of a cached block: all tokens up to its end, as a chain of keyed hashes. The prefix
 * cache finds blocks by it, the ledger (kv_ledger.h) keeps it for the next worker.
 */
#ifndef SHOAL_WORKER_CACHE_PREFIX_BLOCK_H
#define SHOAL_WORKER_CACHE_PREFIX_BLOCK_H

#include <stdint.h>

#include "worker/plan/kv_layout.h"

/* Stores: the cache groups, then the checkpoints of recurrent state. */
#define PREFIX_CHECKPOINT KV_GROUPS_MAX
#define PREFIX_STORES     (KV_GROUPS_MAX + 1u)

struct prefix_name {
    uint64_t words[2];
};

/* The hashed identity of a place. */
struct prefix_block {
    struct prefix_name parent;
    uint32_t tokens[KV_BLOCK_TOKENS];
    uint64_t content[2]; /* zeros: only text */
};
_Static_assert(sizeof(struct prefix_block) == 96, "hashed and compared as bytes: no padding");

#endif
