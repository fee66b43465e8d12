/*
 * Memory of one compiled template or of one rendering: taken piece by piece, given back all at
 * once, never more than a fixed number of bytes. An arena belongs to one thread at a time.
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

/* 16-byte aligned, not zeroed. NULL when the limit or the system's memory is reached. */
void *jinja_arena_take(struct jinja_arena *arena, size_t bytes);

/* Grows the piece in place when it was the last one taken and its chunk has room; false leaves it.
 */
bool jinja_arena_extend(struct jinja_arena *arena, const void *piece, size_t old_bytes,
                        size_t new_bytes);

#endif
