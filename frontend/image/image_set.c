/*
 * Memory of a request's images.
 *
 * Pixels are the largest part of a request: megabytes each, thousands of times a prompt's ids. So
 * they are held once, in the form in which they are sent, and counted against one budget for the
 * whole server before they are allocated.
 */
#include "frontend/image/image_set.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

struct image_set {
    _Atomic uint32_t references;
    uint32_t count;
    uint64_t bytes;
    struct image_budget *budget;
    _Alignas(struct image_record) uint8_t part[];
};

static bool budget_take(struct image_budget *budget, uint64_t bytes)
{
    uint64_t used = atomic_load(&budget->used_bytes);
    do {
        if (bytes > budget->most_bytes - used)
            return false;
    } while (!atomic_compare_exchange_weak(&budget->used_bytes, &used, used + bytes));
    return true;
}

enum result image_set_create(const struct image_record *records, uint32_t count,
                             struct image_budget *budget, struct image_set **set)
{
    must(count >= 1 && count <= LIMIT_REQUEST_RECORDS);
    struct image_record *placed = must_alloc(count, sizeof *placed);
    memcpy(placed, records, count * sizeof *placed);
    uint64_t bytes = image_record_place(placed, count);
    enum result result = bytes > LIMIT_REQUEST_IMAGE_BYTES || bytes > budget->most_bytes
                             ? RESULT_TOO_LARGE
                             : RESULT_OK;
    if (result == RESULT_OK && !budget_take(budget, bytes))
        result = RESULT_FULL;
    /* calloc: the bytes between images are sent to the worker, too. */
    struct image_set *made =
        result == RESULT_OK ? calloc(1, sizeof(struct image_set) + bytes) : NULL;
    if (result == RESULT_OK && !made) {
        atomic_fetch_sub(&budget->used_bytes, bytes);
        result = RESULT_OUT_OF_MEMORY;
    }
    if (result != RESULT_OK) {
        free(placed);
        return result;
    }
    made->references = 1;
    made->count = count;
    made->bytes = bytes;
    made->budget = budget;
    memcpy(made->part, placed, count * sizeof *placed);
    free(placed);
    *set = made;
    return RESULT_OK;
}

struct image_set *image_set_share(struct image_set *set)
{
    if (set)
        atomic_fetch_add(&set->references, 1);
    return set;
}

void image_set_release(struct image_set *set)
{
    if (!set || atomic_fetch_sub(&set->references, 1) > 1)
        return;
    atomic_fetch_sub(&set->budget->used_bytes, set->bytes);
    free(set);
}

struct image_record *image_set_record(struct image_set *set, uint32_t index)
{
    must(index < set->count);
    return (struct image_record *)(void *)set->part + index;
}

uint8_t *image_set_pixels(struct image_set *set, uint32_t index)
{
    return set->part + image_set_record(set, index)->pixels_offset;
}

uint32_t image_set_count(const struct image_set *set)
{
    return set ? set->count : 0;
}

uint64_t image_set_bytes(const struct image_set *set)
{
    return set ? set->bytes : 0;
}

const void *image_set_part(const struct image_set *set)
{
    return set->part;
}
