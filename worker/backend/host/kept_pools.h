/*
 * Memory for KV pools, recurrent state and features of images that outlives the worker
 * (worker/cache/README.md, "After a death"). The frontend holds it; a backend places its pools in it
 * and says whether the contents are those of the worker before.
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_KEPT_POOLS_H
#define SHOAL_WORKER_BACKEND_HOST_KEPT_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/kv_cache_type.h"
#include "worker/plan/plan.h"

/* A zeroed struct: none; the pools are private memory. Descriptors are owned by the caller. */
struct kept_pools {
    bool is_given;
    bool adopt;             /* a pool of number `pool` should be there */
    bool in_use;            /* by a running worker: adopted or, on a device, the load fails */
    uint64_t pool;          /* not 0 */
    uint64_t next_pool;     /* number of the pool that is made if that one cannot be used */
    int memory_fd;          /* for pools in host memory: a memfd of sufficient size, */
    uint64_t memory_offset; /* and where they begin in it */
    int vault_fd;           /* for pools in device memory: the sockets of a vault of descriptors */
    int send_fd;
};

enum kept_pools_origin {
    KEPT_POOLS_PRIVATE, /* the pools end with this process */
    KEPT_POOLS_NEW,     /* kept, without contents */
    KEPT_POOLS_ADOPTED  /* kept, with the contents of pool `pool` */
};

/* Places of pools in host memory, from memory_offset on. */
struct kept_pools_places {
    uint64_t groups[KV_GROUPS_MAX];
    uint64_t state;
    uint64_t features;
    uint64_t byte_count;
};
struct kept_pools_places kept_pools_lay(const struct plan *plan, enum kv_cache_type type,
                                        const uint32_t kv_blocks[KV_GROUPS_MAX],
                                        uint32_t state_slots, uint64_t feature_bytes);

/* Pools on a device, a block at a time. Stores are the cache groups, KEPT_POOLS_STATE: slots of recurrent state, and
 * KEPT_POOLS_FEATURES: rows of the pool of features. */
#define KEPT_POOLS_STATE    KV_GROUPS_MAX
#define KEPT_POOLS_FEATURES (KEPT_POOLS_STATE + 1)
#define KEPT_POOLS_STORES   (KEPT_POOLS_FEATURES + 1)
struct kept_pools_blocks {
    uint64_t identity;                 /* of device and driver */
    uint64_t bytes[KEPT_POOLS_STORES]; /* of a block of each store; 0: no such store */
};
struct kept_pools_copy {
    bool out; /* from the device; else to it */
    uint32_t store;
    uint32_t number; /* of the block, slot or row */
    void *bytes;
};

#endif
