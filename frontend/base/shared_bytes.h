/*
 * Immutable bytes with several owners, on any threads. Each owner holds one reference; the last
 * release frees them.
 */
#ifndef SHOAL_FRONTEND_BASE_SHARED_BYTES_H
#define SHOAL_FRONTEND_BASE_SHARED_BYTES_H

#include <stddef.h>

struct shared_bytes;

/* A copy of `bytes` with one reference, aligned to 16 bytes; NULL: out of memory. */
struct shared_bytes *shared_bytes_create(const void *bytes, size_t length);
/* One more reference; returns its argument, which may be NULL. */
struct shared_bytes *shared_bytes_share(struct shared_bytes *shared);
/* NULL: no effect. */
void shared_bytes_release(struct shared_bytes *shared);

/* NULL has length 0. */
const void *shared_bytes_data(const struct shared_bytes *shared);
size_t shared_bytes_length(const struct shared_bytes *shared);

#endif
