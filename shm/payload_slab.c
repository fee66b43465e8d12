/*
 * Allocates payloads of very different sizes in one shared block of bytes, whose reader may be
 * broken.
 *
 * The allocator's table is one address-ordered array of ranges, free and live, that covers the slab
 * without gaps. A take is first fit and splits a free range; a give-back finds its range by
 * bisection and merges it with free neighbours. The array is in the frontend's private memory and
 * the shared bytes are never read, so nothing that a peer writes there changes what is free. A
 * give-back names offset and generation of a live range; generations repeat only after four billion
 * takes, so an old or invented one frees nothing.
 *
 * A take never waits and chunks never move: if there is no room, the caller queues or answers 429.
 */
#include "shm/payload_slab.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/must.h"

#define CHUNK_ALIGN_BYTES 64u
/* A live request has one payload; an ended one's may wait for its give-back. Twice as many, each
 * with a gap behind it. */
#define RANGES_MAX (4u * LIMIT_LIVE_REQUESTS + 1u)

struct slab_range {
    uint64_t offset;     /* of the chunk header */
    uint64_t bytes;      /* header included */
    uint32_t generation; /* 0 = free */
};

struct payload_slab {
    uint8_t *base;
    uint64_t slab_bytes;
    uint64_t used_bytes;
    uint32_t last_generation;
    uint32_t range_count;
    struct slab_range ranges[RANGES_MAX];
};

static struct payload_chunk_header *chunk_at(struct payload_slab *slab, uint64_t offset)
{
    return (struct payload_chunk_header *)(void *)(slab->base + offset);
}

struct payload_slab *payload_slab_create(void *base, uint64_t slab_bytes)
{
    must(slab_bytes >= CHUNK_ALIGN_BYTES && slab_bytes % CHUNK_ALIGN_BYTES == 0);
    must((uintptr_t)base % CHUNK_ALIGN_BYTES == 0);
    struct payload_slab *slab = must_alloc(1, sizeof *slab);
    slab->base = base;
    slab->slab_bytes = slab_bytes;
    slab->range_count = 1;
    slab->ranges[0].bytes = slab_bytes;
    return slab;
}

void payload_slab_destroy(struct payload_slab *slab)
{
    free(slab);
}

static void range_insert(struct payload_slab *slab, uint32_t at, struct slab_range range)
{
    must(slab->range_count < RANGES_MAX);
    memmove(&slab->ranges[at + 1], &slab->ranges[at],
            (slab->range_count - at) * sizeof slab->ranges[0]);
    slab->ranges[at] = range;
    slab->range_count++;
}

/* Adds the range after `at` to the one at `at`. */
static void range_absorb_next(struct payload_slab *slab, uint32_t at)
{
    slab->ranges[at].bytes += slab->ranges[at + 1].bytes;
    slab->range_count--;
    memmove(&slab->ranges[at + 1], &slab->ranges[at + 2],
            (slab->range_count - at - 1) * sizeof slab->ranges[0]);
}

static uint32_t next_generation(struct payload_slab *slab)
{
    if (++slab->last_generation == 0)
        slab->last_generation = 1; /* 0 means free */
    return slab->last_generation;
}

enum result payload_slab_take(struct payload_slab *slab, uint64_t bytes, struct payload_ref *ref,
                              void **payload)
{
    if (bytes == 0)
        return RESULT_INVALID;
    if (bytes > slab->slab_bytes - PAYLOAD_CHUNK_HEADER_BYTES)
        return RESULT_TOO_LARGE;
    uint64_t needed_bytes = PAYLOAD_CHUNK_HEADER_BYTES +
                            (bytes + CHUNK_ALIGN_BYTES - 1) / CHUNK_ALIGN_BYTES * CHUNK_ALIGN_BYTES;

    uint32_t at = 0;
    while (at < slab->range_count &&
           (slab->ranges[at].generation != 0 || slab->ranges[at].bytes < needed_bytes))
        at++;
    if (at == slab->range_count)
        return RESULT_FULL;

    struct slab_range *range = &slab->ranges[at];
    if (range->bytes > needed_bytes) {
        if (slab->range_count == RANGES_MAX)
            return RESULT_FULL;
        struct slab_range rest = {.offset = range->offset + needed_bytes,
                                  .bytes = range->bytes - needed_bytes};
        range_insert(slab, at + 1, rest);
        range->bytes = needed_bytes;
    }
    range->generation = next_generation(slab);
    slab->used_bytes += needed_bytes;

    /* Relaxed: the submit ring's commit publishes it together with the payload. */
    atomic_store_explicit(&chunk_at(slab, range->offset)->generation, range->generation,
                          memory_order_relaxed);
    *ref = (struct payload_ref){.offset = range->offset + PAYLOAD_CHUNK_HEADER_BYTES,
                                .bytes = bytes,
                                .generation = range->generation};
    *payload = slab->base + ref->offset;
    return RESULT_OK;
}

/* Index of the live range whose payload starts at `offset`, or range_count. */
static uint32_t range_find(const struct payload_slab *slab, uint64_t offset, uint32_t generation)
{
    if (generation == 0 || offset < PAYLOAD_CHUNK_HEADER_BYTES)
        return slab->range_count;
    uint64_t wanted = offset - PAYLOAD_CHUNK_HEADER_BYTES;
    uint32_t low = 0;
    uint32_t high = slab->range_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (slab->ranges[middle].offset < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < slab->range_count && slab->ranges[low].offset == wanted &&
                 slab->ranges[low].generation == generation;
    return found ? low : slab->range_count;
}

enum result payload_slab_give(struct payload_slab *slab, uint64_t offset, uint32_t generation)
{
    uint32_t at = range_find(slab, offset, generation);
    if (at == slab->range_count)
        return RESULT_STALE;

    struct slab_range *range = &slab->ranges[at];
    atomic_store_explicit(&chunk_at(slab, range->offset)->generation, 0, memory_order_relaxed);
    slab->used_bytes -= range->bytes;
    range->generation = 0;
    if (at + 1 < slab->range_count && slab->ranges[at + 1].generation == 0)
        range_absorb_next(slab, at);
    if (at > 0 && slab->ranges[at - 1].generation == 0)
        range_absorb_next(slab, at - 1);
    return RESULT_OK;
}

uint64_t payload_slab_used_bytes(const struct payload_slab *slab)
{
    return slab->used_bytes;
}

enum result payload_view(const void *base, uint64_t slab_bytes, uint64_t offset, uint64_t bytes,
                         uint32_t generation, const void **payload)
{
    if (offset % CHUNK_ALIGN_BYTES != 0 || offset < PAYLOAD_CHUNK_HEADER_BYTES ||
        offset > slab_bytes || bytes == 0 || bytes > slab_bytes - offset)
        return RESULT_CORRUPT;
    const uint8_t *first = (const uint8_t *)base + offset;
    const struct payload_chunk_header *header =
        (const struct payload_chunk_header *)(const void *)(first - PAYLOAD_CHUNK_HEADER_BYTES);
    if (generation == 0 ||
        atomic_load_explicit(&header->generation, memory_order_relaxed) != generation)
        return RESULT_STALE;
    *payload = first;
    return RESULT_OK;
}
