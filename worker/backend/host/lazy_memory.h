/*
 * Zeroed memory from the kernel that takes no physical pages until it is touched.
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_LAZY_MEMORY_H
#define SHOAL_WORKER_BACKEND_HOST_LAZY_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"

struct lazy_memory {
    void *bytes; /* page-aligned; NULL when byte_count is 0 */
    uint64_t byte_count;
};

/* `huge`: all of it is used soon, so large pages save address translation. RESULT_OUT_OF_MEMORY
 * names `what` and its size. */
enum result lazy_memory_reserve(struct lazy_memory *memory, uint64_t byte_count, bool huge,
                                const char *what, struct error_text *error) RESULT_CHECKED;
/* The same with byte_count bytes of a file of memory, from `offset` on (a multiple of the page size).
 * RESULT_IO. */
enum result lazy_memory_map(struct lazy_memory *memory, int fd, uint64_t offset,
                            uint64_t byte_count, struct error_text *error) RESULT_CHECKED;
void lazy_memory_release(struct lazy_memory *memory);

#endif
