/*
 * The manifest of a vault: which checkpoint's weights it holds, in which layout, at which offsets.
 *
 *   0                      struct weight_manifest_head
 *   128                    struct weight_manifest_entry [weight_count], in the plan's order
 *   next multiple of 4096  the repacked weights, each 64-byte aligned
 *   up to 2 MiB            zeros
 *
 * Every number but the checksums follows from the plan and the checkpoint's identity: a reader
 * makes the manifest that it would write itself and requires that the one it found is equal. So
 * nothing that another process wrote is used as a size or an offset. The rules:
 *
 *   M1  magic, version, layout and entry size are this build's
 *   M2  the checkpoint's size, times, device and inode are this checkpoint's
 *   M3  so is the hash of its header
 *   M4  the checksum of head and entries fits them
 *   M5  the vault's size, number of weights and start of data are the plan's
 *   M6  each entry's name, kind, rows and columns are those of its weight
 *   M7  each entry's offset and size follow from the entries before it
 *   M8  unused bytes are zero
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_WEIGHTS_WEIGHT_MANIFEST_H
#define SHOAL_WORKER_BACKEND_CPU_WEIGHTS_WEIGHT_MANIFEST_H

#include <stdint.h>

#include "proto/result.h"
#include "worker/backend/cpu/weights/packed_weight.h"
#include "worker/model/model.h"
#include "worker/plan/plan.h"

#define WEIGHT_MANIFEST_MAGIC     "SHOALWTS"
#define WEIGHT_MANIFEST_VERSION   1u
#define WEIGHT_MANIFEST_ALIGNMENT 64u

struct weight_manifest_head {
    char magic[8];
    uint32_t version;
    uint32_t packed_layout; /* PACKED_LAYOUT_VERSION */
    uint64_t file_bytes;    /* of the checkpoint */
    int64_t modified_ns;
    int64_t changed_ns;
    uint64_t device;
    uint64_t inode;
    uint64_t header_hash;
    uint64_t total_bytes; /* of the vault */
    uint64_t data_offset;
    uint32_t weight_count;
    uint32_t entry_bytes;
    uint8_t reserved[32];
    uint64_t checksum; /* content_hash() of head, with this field as 0, and entries */
};
_Static_assert(sizeof(struct weight_manifest_head) == 128, "byte map");

struct weight_manifest_entry {
    uint64_t name_hash; /* of the tensor's name */
    uint64_t offset;    /* from the vault's first byte */
    uint64_t bytes;
    uint32_t kind; /* enum packed_kind */
    uint32_t rows;
    uint32_t columns;
    uint32_t reserved;
    uint64_t checksum; /* sum over the weight's groups of content_hash(group, its number) */
};
_Static_assert(sizeof(struct weight_manifest_entry) == 48, "byte map");

/* A copy in the process's own memory, laid out as in the vault. */
struct weight_manifest {
    struct weight_manifest_head *head;     /* starts the block that is freed */
    struct weight_manifest_entry *entries; /* [head->weight_count], directly after the head */
    uint64_t byte_count;                   /* of both */
};

/* The manifest of the plan's weights w with packed[w].group_bytes > 0 (packed: [weight_count]); all
 * checksums are 0. Every size of a plan is bounded, so this does not fail. */
struct weight_manifest weight_manifest_create(const struct plan *plan,
                                              const struct packed_weight *packed,
                                              const struct model_fingerprint *checkpoint);
void weight_manifest_destroy(struct weight_manifest *manifest);

/* Writes the head's checksum, once the entries' are set. */
void weight_manifest_finish(struct weight_manifest *manifest);

/* Compares `found`, mine->byte_count bytes that another process wrote and can no longer change,
 * with `mine`; on success copies the entries' checksums. RESULT_CORRUPT: it contradicts itself;
 * RESULT_STALE: it is intact, but of another checkpoint, plan or build. The text begins with the
 * rule. */
enum result weight_manifest_check(struct weight_manifest *mine, const void *found,
                                  struct error_text *error) RESULT_CHECKED;

#endif
