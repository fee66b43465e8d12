/*
 * Makes allocations fail, for tests of how a module handles that. Not under sanitizers, which reserve more
 * address space than any limit (sanitized.h).
 */
#ifndef SHOAL_TESTS_SUPPORT_NO_MEMORY_H
#define SHOAL_TESTS_SUPPORT_NO_MEMORY_H

#include <stddef.h>

/* From now on malloc() of `least_bytes` or more fails; smaller blocks may still be had. */
void no_memory_begin(size_t least_bytes);
void no_memory_end(void);

#endif
