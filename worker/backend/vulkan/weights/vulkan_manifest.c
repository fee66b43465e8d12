/*
 * Compares the manifest of memory that another process left with the one that this process would
 * write.
 *
 * The bytes of the weights are not read: reading them back takes longer than uploading them again.
 * Fields are compared one by one, so that the log says what differs.
 *
 * No number of the other process is used: chunk sizes and offsets are computed again from the plan,
 * and the number of descriptors must match (vulkan_weight_loader.c).
 */
#include "worker/backend/vulkan/weights/vulkan_manifest.h"

#include <string.h>

#include "proto/must.h"
#include "worker/plan/content_hash.h"

/* The fields that decide the place and content of each matrix. */
struct matrix_key {
    uint32_t kind;
    uint32_t rows;
    uint32_t columns;
    uint32_t weight_count;
    uint64_t names_hash;
};

static uint64_t hash_matrices(const struct vulkan_weights *weights)
{
    uint64_t hash = weights->matrix_count;
    for (uint32_t m = 0; m < weights->matrix_count; m++) {
        const struct vulkan_matrix *matrix = &weights->matrices[m];
        struct matrix_key key = {.kind = matrix->kind,
                                 .rows = matrix->rows,
                                 .columns = matrix->columns,
                                 .weight_count = matrix->weight_count};
        for (uint32_t w = 0; w < matrix->weight_count; w++) {
            const char *name = weights->plan->weights[matrix->weights[w]].name;
            key.names_hash = content_hash(name, strlen(name), key.names_hash);
        }
        hash = content_hash(&key, sizeof key, hash);
    }
    return hash;
}

struct vulkan_manifest vulkan_manifest_describe(const struct vulkan_weights *weights,
                                                const struct model_fingerprint *checkpoint)
{
    const struct vulkan_facts *facts = &weights->device->facts;
    struct vulkan_manifest manifest = {
        .version = VULKAN_MANIFEST_VERSION,
        .layout = VULKAN_WEIGHT_LAYOUT_VERSION,
        .file_bytes = checkpoint->file_bytes,
        .modified_ns = checkpoint->modified_ns,
        .changed_ns = checkpoint->changed_ns,
        .device = checkpoint->device,
        .inode = checkpoint->inode,
        .header_hash = checkpoint->header_hash,
        .allocation_bytes = facts->max_allocation_bytes,
        .matrix_bytes = weights->matrix_bytes,
        .plan_hash = hash_matrices(weights),
    };
    memcpy(manifest.magic, VULKAN_MANIFEST_MAGIC, sizeof manifest.magic);
    memcpy(manifest.device_id, facts->device_id, sizeof manifest.device_id);
    memcpy(manifest.driver_id, facts->driver_id, sizeof manifest.driver_id);
    return manifest;
}

static uint64_t checksum_of(const struct vulkan_manifest *manifest)
{
    return content_hash(manifest, offsetof(struct vulkan_manifest, checksum), 0);
}

void vulkan_manifest_finish(struct vulkan_manifest *manifest, uint32_t chunk_count)
{
    must(chunk_count > 0 && chunk_count <= VULKAN_VAULT_FDS_MAX);
    manifest->chunk_count = chunk_count;
    manifest->checksum = checksum_of(manifest);
}

static enum result check_origin(const struct vulkan_manifest *mine,
                                const struct vulkan_manifest *found, struct error_text *error)
{
    if (found->file_bytes != mine->file_bytes || found->modified_ns != mine->modified_ns ||
        found->changed_ns != mine->changed_ns || found->device != mine->device ||
        found->inode != mine->inode)
        return error_set(error, RESULT_STALE, "V2: it holds another checkpoint's weights");
    if (found->header_hash != mine->header_hash)
        return error_set(error, RESULT_STALE, "V3: the checkpoint's header was another one");
    if (memcmp(found->device_id, mine->device_id, sizeof mine->device_id) != 0)
        return error_set(error, RESULT_STALE, "V5: it is another device's memory");
    if (memcmp(found->driver_id, mine->driver_id, sizeof mine->driver_id) != 0 ||
        found->allocation_bytes != mine->allocation_bytes)
        return error_set(error, RESULT_STALE, "V5: it is another driver's memory");
    if (found->plan_hash != mine->plan_hash || found->matrix_bytes != mine->matrix_bytes)
        return error_set(error, RESULT_STALE, "V6: its matrices are not those of the plan");
    return RESULT_OK;
}

enum result vulkan_manifest_check(const struct vulkan_manifest *mine, const void *bytes,
                                  size_t byte_count, uint32_t fd_count, struct error_text *error)
{
    struct vulkan_manifest found;
    if (byte_count != sizeof found)
        return error_set(error, RESULT_CORRUPT, "V1: its manifest has %zu bytes, not %zu",
                         byte_count, sizeof found);
    memcpy(&found, bytes, sizeof found);
    if (memcmp(found.magic, mine->magic, sizeof found.magic) != 0)
        return error_set(error, RESULT_CORRUPT, "V1: it does not begin with a manifest");
    if (found.version != mine->version || found.layout != mine->layout)
        return error_set(error, RESULT_STALE, "V1: it is of another version (%u, layout %u)",
                         found.version, found.layout);
    if (found.checksum != checksum_of(&found))
        return error_set(error, RESULT_CORRUPT, "V4: its manifest is damaged");
    enum result result = check_origin(mine, &found, error);
    if (result != RESULT_OK)
        return result;
    if (fd_count == 0 || found.chunk_count != fd_count)
        return error_set(error, RESULT_CORRUPT, "V7: it has %u descriptors for %u allocations",
                         fd_count, found.chunk_count);
    for (size_t i = 0; i < sizeof found.reserved; i++)
        if (found.reserved[i] != 0)
            return error_set(error, RESULT_CORRUPT, "V8: unused bytes are not zero");
    return RESULT_OK;
}
