/*
 * Compares the manifest found in a vault with the one made from the plan.
 *
 * The checksum is compared first, so that damage is told apart from another checkpoint's intact
 * weights: neither vault can be used, but only damage is a fault. Comparing with the manifest that
 * this process would write means that no size, count or offset is taken from the vault.
 */
#include "worker/backend/cpu/weights/weight_manifest.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/plan/content_hash.h"

#define DATA_ALIGNMENT  4096u
#define TOTAL_ALIGNMENT ((uint64_t)2 << 20) /* so that all of it can be on large pages */

static uint64_t align_up(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

static uint64_t checksum_of(const struct weight_manifest_head *head,
                            const struct weight_manifest_entry *entries, uint32_t weight_count)
{
    struct weight_manifest_head plain = *head;
    plain.checksum = 0;
    uint64_t hash = content_hash(&plain, sizeof plain, 0);
    return content_hash(entries, weight_count * sizeof entries[0], hash);
}

struct weight_manifest weight_manifest_create(const struct plan *plan,
                                              const struct packed_weight *packed,
                                              const struct model_fingerprint *checkpoint)
{
    uint32_t count = 0;
    for (uint32_t w = 0; w < plan->weight_count; w++)
        count += packed[w].group_bytes > 0;
    struct weight_manifest manifest = {.byte_count = sizeof *manifest.head +
                                                     count * sizeof *manifest.entries};
    manifest.head = must_alloc(manifest.byte_count, 1);
    manifest.entries = (struct weight_manifest_entry *)(manifest.head + 1);
    uint64_t at = align_up(manifest.byte_count, DATA_ALIGNMENT);
    *manifest.head = (struct weight_manifest_head){
        .version = WEIGHT_MANIFEST_VERSION,
        .packed_layout = PACKED_LAYOUT_VERSION,
        .file_bytes = checkpoint->file_bytes,
        .modified_ns = checkpoint->modified_ns,
        .changed_ns = checkpoint->changed_ns,
        .device = checkpoint->device,
        .inode = checkpoint->inode,
        .header_hash = checkpoint->header_hash,
        .data_offset = at,
        .weight_count = count,
        .entry_bytes = sizeof *manifest.entries,
    };
    memcpy(manifest.head->magic, WEIGHT_MANIFEST_MAGIC, sizeof manifest.head->magic);
    struct weight_manifest_entry *entry = manifest.entries;
    for (uint32_t w = 0; w < plan->weight_count; w++) {
        if (packed[w].group_bytes == 0)
            continue;
        const char *name = plan->weights[w].name;
        *entry = (struct weight_manifest_entry){
            .name_hash = content_hash(name, strlen(name), 0),
            .offset = at,
            .bytes = packed_weight_bytes(&packed[w]),
            .kind = packed[w].kind,
            .rows = packed[w].matrices * packed[w].rows,
            .columns = packed[w].columns,
        };
        at += align_up(entry->bytes, WEIGHT_MANIFEST_ALIGNMENT);
        entry++;
    }
    manifest.head->total_bytes = align_up(at, TOTAL_ALIGNMENT);
    return manifest;
}

void weight_manifest_destroy(struct weight_manifest *manifest)
{
    free(manifest->head);
    *manifest = (struct weight_manifest){0};
}

void weight_manifest_finish(struct weight_manifest *manifest)
{
    manifest->head->checksum =
        checksum_of(manifest->head, manifest->entries, manifest->head->weight_count);
}

static enum result check_head(const struct weight_manifest_head *mine,
                              const struct weight_manifest_head *found, struct error_text *error)
{
    static const uint8_t zeros[sizeof found->reserved];
    if (found->file_bytes != mine->file_bytes || found->modified_ns != mine->modified_ns ||
        found->changed_ns != mine->changed_ns || found->device != mine->device ||
        found->inode != mine->inode)
        return error_set(error, RESULT_STALE, "M2: it holds another checkpoint file");
    if (found->header_hash != mine->header_hash)
        return error_set(error, RESULT_STALE, "M3: it holds a checkpoint of another header");
    if (found->total_bytes != mine->total_bytes || found->data_offset != mine->data_offset)
        return error_set(error, RESULT_STALE, "M5: it has %llu bytes, not %llu",
                         (unsigned long long)found->total_bytes,
                         (unsigned long long)mine->total_bytes);
    if (memcmp(found->reserved, zeros, sizeof zeros) != 0)
        return error_set(error, RESULT_STALE, "M8: its head has fields of another build");
    return RESULT_OK;
}

static enum result check_entry(const struct weight_manifest_entry *mine,
                               const struct weight_manifest_entry *found, uint32_t number,
                               struct error_text *error)
{
    if (found->name_hash != mine->name_hash || found->kind != mine->kind ||
        found->rows != mine->rows || found->columns != mine->columns)
        return error_set(error, RESULT_STALE, "M6: weight %u is another one", number);
    if (found->offset != mine->offset || found->bytes != mine->bytes)
        return error_set(error, RESULT_STALE, "M7: weight %u lies elsewhere", number);
    if (found->reserved != 0)
        return error_set(error, RESULT_STALE, "M8: weight %u has fields of another build", number);
    return RESULT_OK;
}

enum result weight_manifest_check(struct weight_manifest *mine, const void *bytes,
                                  struct error_text *error)
{
    const struct weight_manifest_head *found = bytes;
    const struct weight_manifest_entry *entries = (const struct weight_manifest_entry *)(found + 1);
    uint32_t count = mine->head->weight_count;
    if (memcmp(found->magic, mine->head->magic, sizeof found->magic) != 0)
        return error_set(error, RESULT_CORRUPT, "M1: it does not begin with a manifest");
    if (found->version != mine->head->version ||
        found->packed_layout != mine->head->packed_layout ||
        found->entry_bytes != mine->head->entry_bytes)
        return error_set(error, RESULT_STALE, "M1: it is of version %u, layout %u, not %u, %u",
                         found->version, found->packed_layout, mine->head->version,
                         mine->head->packed_layout);
    if (found->weight_count != count)
        return error_set(error, RESULT_STALE, "M5: it holds %u weights, not %u",
                         found->weight_count, count);
    if (found->checksum != checksum_of(found, entries, count))
        return error_set(error, RESULT_CORRUPT, "M4: its manifest is damaged");
    enum result result = check_head(mine->head, found, error);
    for (uint32_t i = 0; i < count && result == RESULT_OK; i++)
        result = check_entry(&mine->entries[i], &entries[i], i, error);
    if (result != RESULT_OK)
        return result;
    memcpy(mine->head, found, mine->byte_count);
    return RESULT_OK;
}
