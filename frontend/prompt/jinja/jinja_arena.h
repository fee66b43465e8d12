/*
 * Memory of one compiled template or one rendering: allocated piece by piece, freed all at once,
 * bounded by a fixed number of bytes. An arena belongs to one thread at a time.
 */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_ARENA_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct jinja_chunk;

struct jinja_arena {
    struct jinja_chunk *chunks; /* newest first */
    size_t taken_bytes;         /* malloc'd so far, chunk headers included */
    size_t limit_bytes;
};

void jinja_arena_init(struct jinja_arena *arena, size_t limit_bytes);
void jinja_arena_fini(struct jinja_arena *arena);

/* 16-byte aligned, not zeroed. NULL if the limit or the system's memory is exhausted. */
void *jinja_arena_take(struct jinja_arena *arena, size_t bytes);

/* Grows the last allocation in place; false if it is not the last or its chunk has no room. */
bool jinja_arena_extend(struct jinja_arena *arena, const void *piece, size_t old_bytes,
                        size_t new_bytes);

#endif
