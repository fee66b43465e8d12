/*
 * A fast 64-bit hash of bytes, which tells contents apart that differ by accident, not by malice:
 * checkpoint headers, manifests, prepared weights, saved prefix caches. Its values on disk are only read
 * by the program file that wrote them.
 */
#ifndef SHOAL_WORKER_PLAN_CONTENT_HASH_H
#define SHOAL_WORKER_PLAN_CONTENT_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The same bytes with another seed hash otherwise. */
uint64_t content_hash(const void *bytes, size_t byte_count, uint64_t seed);

#endif
