/*
 * The count is the only field that changes. Releasing is an acquire-release operation, so that the
 * thread that frees sees every other owner's reads as done.
 */
#include "frontend/base/shared_bytes.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

struct shared_bytes {
    atomic_uint references;
    size_t length;
    alignas(16) unsigned char bytes[];
};

struct shared_bytes *shared_bytes_create(const void *bytes, size_t length)
{
    struct shared_bytes *shared = malloc(sizeof *shared + length);
    if (!shared)
        return NULL;
    atomic_init(&shared->references, 1);
    shared->length = length;
    if (length > 0)
        memcpy(shared->bytes, bytes, length);
    return shared;
}

struct shared_bytes *shared_bytes_share(struct shared_bytes *shared)
{
    if (shared)
        must(atomic_fetch_add_explicit(&shared->references, 1, memory_order_relaxed) > 0);
    return shared;
}

void shared_bytes_release(struct shared_bytes *shared)
{
    if (shared && atomic_fetch_sub_explicit(&shared->references, 1, memory_order_acq_rel) == 1)
        free(shared);
}

const void *shared_bytes_data(const struct shared_bytes *shared)
{
    return shared ? shared->bytes : NULL;
}

size_t shared_bytes_length(const struct shared_bytes *shared)
{
    return shared ? shared->length : 0;
}
