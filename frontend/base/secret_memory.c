/*
 * A mapping of its own, because locking and dumping are decided by page: the pages of the heap are
 * shared with other data, and freed memory of the heap keeps its bytes. For the same reason files
 * are read with read(2): a FILE has a buffer on the heap.
 */
#include "frontend/base/secret_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/must.h"

void secret_memory_init(struct secret_memory *memory, size_t capacity)
{
    void *bytes = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(bytes != MAP_FAILED);
    must(madvise(bytes, capacity, MADV_DONTDUMP) == 0);
    must(madvise(bytes, capacity, MADV_DONTFORK) == 0);
    (void)mlock(bytes, capacity);
    *memory = (struct secret_memory){.bytes = bytes, .capacity = capacity};
}

void secret_memory_fini(struct secret_memory *memory)
{
    explicit_bzero(memory->bytes, memory->capacity);
    must(munmap(memory->bytes, memory->capacity) == 0);
    *memory = (struct secret_memory){0};
}

enum result secret_memory_read(struct secret_memory *memory, int fd)
{
    memory->size = 0;
    for (;;) {
        char beyond; /* is there a byte that does not fit? */
        bool full = memory->size == memory->capacity;
        ssize_t got = full
                          ? read(fd, &beyond, 1)
                          : read(fd, memory->bytes + memory->size, memory->capacity - memory->size);
        if (got == 0)
            return RESULT_OK;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return RESULT_IO;
        if (full)
            return RESULT_TOO_LARGE;
        memory->size += (size_t)got;
    }
}
