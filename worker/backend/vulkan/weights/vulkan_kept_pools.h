/*
 * Device memory of KV pools, recurrent state and features of images that outlives the worker: arenas
 * that are imported from a vault of descriptors, or exported into it (worker/backend/host/kept_pools.h).
 *
 * The message in the vault is a manifest with the descriptors of both arenas. The ledger in host
 * memory and the message carry the same pool number, so that neither is taken for another's. Sizes
 * and offsets follow from the reader's own plan. The rules:
 *
 *   P1  length, magic, version and checksum
 *   P2  the pool number is the ledger's
 *   P3  device, driver and the bound of allocations are this process's
 *   P4  the number of descriptors is the one that it states, and that the arenas take
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_KEPT_POOLS_H
#define SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_KEPT_POOLS_H

#include "worker/backend/host/kept_pools.h"
#include "worker/backend/vulkan/device/vulkan_memory.h"
#include "worker/backend/vulkan/weights/vulkan_vault.h"

#define VULKAN_POOLS_MAGIC   "SHOALVKP"
#define VULKAN_POOLS_VERSION 2u

struct vulkan_pools_manifest {
    char magic[8];
    uint32_t version;
    uint32_t kv_chunks;
    uint32_t state_chunks;
    uint32_t reserved;
    uint64_t pool;
    uint8_t device_id[VK_UUID_SIZE];
    uint8_t driver_id[VK_UUID_SIZE];
    uint64_t allocation_bytes; /* the largest that the device allows */
    uint64_t checksum;         /* content_hash() of all fields before */
};
_Static_assert(sizeof(struct vulkan_pools_manifest) == 80, "byte map");

/* One attempt to place the pools; the next one is less demanding. */
enum vulkan_pools_attempt { VULKAN_POOLS_IMPORT, VULKAN_POOLS_EXPORT, VULKAN_POOLS_PRIVATE };

struct vulkan_kept_pools {
    const struct vulkan_device *device;
    struct kept_pools options;
    enum vulkan_pools_attempt attempt;
    struct vulkan_vault_message message; /* IMPORT: what the vault holds */
    uint32_t kv_chunks;
    struct error_text reason; /* why an earlier attempt failed, else "" */
};

/* Chooses the first attempt and reads the vault, which is emptied unless it can be imported. */
void vulkan_kept_pools_begin(struct vulkan_kept_pools *pools, const struct vulkan_device *device,
                             const struct kept_pools *options);
/* Arenas of this attempt. */
struct vulkan_arena *vulkan_kept_pools_kv(const struct vulkan_kept_pools *pools,
                                          uint64_t expected_bytes);
struct vulkan_arena *vulkan_kept_pools_state(const struct vulkan_kept_pools *pools,
                                             uint64_t expected_bytes);
/* After all pieces are taken: completes the attempt. On failure the arenas must be destroyed and
 * another attempt made. */
enum result vulkan_kept_pools_finish(struct vulkan_kept_pools *pools, const struct vulkan_arena *kv,
                                     const struct vulkan_arena *state,
                                     struct error_text *error) RESULT_CHECKED;
/* After a failure whose text is `why`: chooses the next attempt. False: there is none. */
bool vulkan_kept_pools_retry(struct vulkan_kept_pools *pools, const char *why);
/* Closes descriptors; *origin says which attempt was completed. */
void vulkan_kept_pools_end(struct vulkan_kept_pools *pools, enum kept_pools_origin *origin);

#endif
