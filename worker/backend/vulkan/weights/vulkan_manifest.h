/*
 * The manifest of a vault of descriptors: which checkpoint's weights are in the memory that comes
 * with it, and in which layout.
 *
 * A reader makes the manifest that it would write itself and requires that the one it found is
 * equal; sizes and offsets of imported memory follow from its own plan. The rules:
 *
 *   V1  length, magic, version and layout are this build's
 *   V2  the checkpoint's size, times, device and inode are this checkpoint's
 *   V3  so is the hash of its header
 *   V4  the checksum fits
 *   V5  the device and the driver are those that this process uses, and allocations have the same
 *       bounds
 *   V6  the matrices, their weights, kinds and shapes, in order, are the plan's
 *   V7  the number of descriptors is the one that it states
 *   V8  unused bytes are zero
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_MANIFEST_H
#define SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_MANIFEST_H

#include "worker/backend/vulkan/weights/vulkan_vault.h"
#include "worker/backend/vulkan/weights/vulkan_weights.h"

#define VULKAN_MANIFEST_MAGIC   "SHOALVKW"
#define VULKAN_MANIFEST_VERSION 1u

struct vulkan_manifest {
    char magic[8];
    uint32_t version;
    uint32_t layout;     /* VULKAN_WEIGHT_LAYOUT_VERSION */
    uint64_t file_bytes; /* of the checkpoint */
    int64_t modified_ns;
    int64_t changed_ns;
    uint64_t device;
    uint64_t inode;
    uint64_t header_hash;
    uint8_t device_id[VK_UUID_SIZE];
    uint8_t driver_id[VK_UUID_SIZE];
    uint64_t allocation_bytes; /* the largest that the device allows */
    uint64_t matrix_bytes;
    uint64_t plan_hash; /* of the matrices */
    uint32_t chunk_count;
    uint8_t reserved[28];
    uint64_t checksum; /* content_hash() of all fields before */
};
_Static_assert(sizeof(struct vulkan_manifest) == 160, "byte map");
_Static_assert(sizeof(struct vulkan_manifest) <= VULKAN_VAULT_BYTES_MAX, "fits a message");

/* For these weights before they are placed: without chunk_count and checksum. */
struct vulkan_manifest vulkan_manifest_describe(const struct vulkan_weights *weights,
                                                const struct model_fingerprint *checkpoint);
void vulkan_manifest_finish(struct vulkan_manifest *manifest, uint32_t chunk_count);

/* Compares `byte_count` bytes that another process left with `fd_count` descriptors with `mine`.
 * RESULT_CORRUPT: they contradict themselves; RESULT_STALE: they are intact, but of another
 * checkpoint, device, plan or build. The text begins with the rule. */
enum result vulkan_manifest_check(const struct vulkan_manifest *mine, const void *found,
                                  size_t byte_count, uint32_t fd_count,
                                  struct error_text *error) RESULT_CHECKED;

#endif
