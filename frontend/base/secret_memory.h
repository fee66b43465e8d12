/*
 * Memory for secrets that are in plain text for a moment: a file with keys while it is parsed.
 */
#ifndef SHOAL_FRONTEND_BASE_SECRET_MEMORY_H
#define SHOAL_FRONTEND_BASE_SECRET_MEMORY_H

#include <stddef.h>

#include "proto/result.h"

/* Pages of its own, left out of core dumps and of children, and locked against swapping unless
 * RLIMIT_MEMLOCK forbids it. */
struct secret_memory {
    char *bytes;
    size_t size;     /* bytes in use */
    size_t capacity; /* bytes mapped */
};

/* Allocates zeroed memory; aborts if there is none. */
void secret_memory_init(struct secret_memory *memory, size_t capacity);
/* Overwrites and frees it. */
void secret_memory_fini(struct secret_memory *memory);

/* Reads the rest of an open file into initialized memory, without a buffer elsewhere. Sets `size`.
 * RESULT_TOO_LARGE if the file has more than `capacity` bytes, RESULT_IO with errno set. */
enum result secret_memory_read(struct secret_memory *memory, int fd) RESULT_CHECKED;

#endif
