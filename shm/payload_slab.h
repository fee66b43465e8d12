/*
 * Variable-size payloads (prompt ids, pixels) in shared memory. All bookkeeping (free ranges,
 * owners) is in the frontend's private memory, so a worker cannot corrupt it; the worker only reads
 * payloads and gives them back by event.
 *
 * Each chunk starts with a header that holds its generation, so that a worker detects a stale
 * reference. The frontend checks each give-back against its private record (offset and generation),
 * so a broken worker can free only live chunks of its own.
 */
#ifndef SHOAL_SHM_PAYLOAD_SLAB_H
#define SHOAL_SHM_PAYLOAD_SLAB_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

/*
 * The start of each chunk.
 *
 * Byte map of struct payload_chunk_header, 64 bytes. Written by the frontend.
 *
 *   offset  size  field       rule
 *   0       4     generation  of the live chunk; 0 after it was given back
 *   4       60    reserved    unused
 */
#define PAYLOAD_CHUNK_HEADER_BYTES 64u
struct payload_chunk_header {
    _Atomic uint32_t generation;
    uint8_t reserved[PAYLOAD_CHUNK_HEADER_BYTES - sizeof(uint32_t)];
};
_Static_assert(sizeof(struct payload_chunk_header) == 64, "keeps payloads 64-byte aligned");

struct payload_slab; /* frontend-private allocator */

struct payload_ref {
    uint64_t offset; /* in the slab, of the first byte after the chunk header; 64-byte aligned */
    uint64_t bytes;
    uint32_t generation;
};

/* Frontend. `base` is the mapped slab, 64-byte aligned, of `slab_bytes` (multiple of 64). First fit
 * over address-ordered free ranges with coalescing. */
struct payload_slab *payload_slab_create(void *base, uint64_t slab_bytes);
void payload_slab_destroy(struct payload_slab *slab);
/* RESULT_FULL when no range is large enough now; RESULT_TOO_LARGE when it can never fit;
 * RESULT_INVALID for 0 bytes. */
enum result payload_slab_take(struct payload_slab *slab, uint64_t bytes, struct payload_ref *ref,
                              void **payload) RESULT_CHECKED;
/* RESULT_STALE when no live chunk has this offset and generation (nothing is freed). */
enum result payload_slab_give(struct payload_slab *slab, uint64_t offset,
                              uint32_t generation) RESULT_CHECKED;
uint64_t payload_slab_used_bytes(const struct payload_slab *slab);

/* Worker. Checks range, alignment and generation word; RESULT_CORRUPT or RESULT_STALE. The frontend
 * can still write to the bytes at any time: copy them out, then check the copy. */
enum result payload_view(const void *base, uint64_t slab_bytes, uint64_t offset, uint64_t bytes,
                         uint32_t generation, const void **payload) RESULT_CHECKED;

#endif
