/*
 * A bump allocator with a limit.
 *
 * The values that a template builds refer to each other freely (a macro keeps its scope, a slice
 * its string), and reference counting would dominate the interpreter. A rendering is short, so its
 * memory lives until its end, and one number bounds all of it. Chunks double up to a ceiling; an
 * allocation too large for a chunk gets its own, so nothing is copied when an arena grows.
 *
 * Single allocations are not freed. The last one may grow in place, as string builders need.
 */
#include "frontend/prompt/jinja/jinja_arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#define CHUNK_MIN_BYTES ((size_t)16 << 10)
#define CHUNK_MAX_BYTES ((size_t)1 << 20)
#define ALIGNMENT       ((size_t)16)

struct jinja_chunk {
    struct jinja_chunk *older;
    size_t capacity_bytes;
    size_t used_bytes;
    alignas(16) unsigned char bytes[];
};

void jinja_arena_init(struct jinja_arena *arena, size_t limit_bytes)
{
    *arena = (struct jinja_arena){.limit_bytes = limit_bytes};
}

void jinja_arena_fini(struct jinja_arena *arena)
{
    struct jinja_chunk *chunk = arena->chunks;
    while (chunk != NULL) {
        struct jinja_chunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
    *arena = (struct jinja_arena){0};
}

static size_t round_up(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

static struct jinja_chunk *arena_grow(struct jinja_arena *arena, size_t bytes)
{
    size_t capacity = arena->chunks == NULL ? CHUNK_MIN_BYTES : arena->chunks->capacity_bytes * 2;
    if (capacity > CHUNK_MAX_BYTES)
        capacity = CHUNK_MAX_BYTES;
    if (capacity < bytes)
        capacity = bytes;
    size_t total = sizeof(struct jinja_chunk) + capacity;
    if (total > arena->limit_bytes - arena->taken_bytes)
        return NULL;
    struct jinja_chunk *chunk = malloc(total);
    if (chunk == NULL)
        return NULL;
    chunk->older = arena->chunks;
    chunk->capacity_bytes = capacity;
    chunk->used_bytes = 0;
    arena->chunks = chunk;
    arena->taken_bytes += total;
    return chunk;
}

void *jinja_arena_take(struct jinja_arena *arena, size_t bytes)
{
    if (bytes > arena->limit_bytes)
        return NULL;
    size_t needed = round_up(bytes == 0 ? 1 : bytes);
    struct jinja_chunk *chunk = arena->chunks;
    if (chunk == NULL || chunk->capacity_bytes - chunk->used_bytes < needed) {
        chunk = arena_grow(arena, needed);
        if (chunk == NULL)
            return NULL;
    }
    void *piece = chunk->bytes + chunk->used_bytes;
    chunk->used_bytes += needed;
    return piece;
}

bool jinja_arena_extend(struct jinja_arena *arena, const void *piece, size_t old_bytes,
                        size_t new_bytes)
{
    struct jinja_chunk *chunk = arena->chunks;
    if (chunk == NULL || piece == NULL || new_bytes > arena->limit_bytes)
        return false;
    size_t old_needed = round_up(old_bytes == 0 ? 1 : old_bytes);
    size_t new_needed = round_up(new_bytes == 0 ? 1 : new_bytes);
    if ((const unsigned char *)piece + old_needed != chunk->bytes + chunk->used_bytes)
        return false;
    if (new_needed - old_needed > chunk->capacity_bytes - chunk->used_bytes)
        return false;
    chunk->used_bytes += new_needed - old_needed;
    return true;
}
