/*
 * Anonymous mappings without reserve: the step's tensors and the KV pools are sized for the largest
 * step and the fullest cache, and most of them stays untouched. The caller decides whether the
 * sizes fit the machine.
 */
#include "worker/backend/host/lazy_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum result lazy_memory_reserve(struct lazy_memory *memory, uint64_t byte_count, bool huge,
                                const char *what, struct error_text *error)
{
    *memory = (struct lazy_memory){0};
    if (byte_count == 0)
        return RESULT_OK;
    void *bytes = MAP_FAILED;
    errno = ENOMEM;
    if (byte_count <= SIZE_MAX / 2)
        bytes = mmap(NULL, byte_count, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED)
        return error_set(error, RESULT_OUT_OF_MEMORY, "%s: %llu bytes: %s", what,
                         (unsigned long long)byte_count, strerror(errno));
    if (huge)
        (void)madvise(bytes, byte_count, MADV_HUGEPAGE); /* without large pages it is only slower */
    *memory = (struct lazy_memory){bytes, byte_count};
    return RESULT_OK;
}

enum result lazy_memory_map(struct lazy_memory *memory, int fd, uint64_t offset,
                            uint64_t byte_count, struct error_text *error)
{
    struct stat status;
    *memory = (struct lazy_memory){0};
    if (byte_count == 0)
        return RESULT_OK;
    /* A page beyond the file's end would be a SIGBUS. */
    if (fstat(fd, &status) != 0 || status.st_size < 0 || (uint64_t)status.st_size < offset ||
        (uint64_t)status.st_size - offset < byte_count)
        return error_set(error, RESULT_IO, "it has no %llu bytes at %llu",
                         (unsigned long long)byte_count, (unsigned long long)offset);
    void *bytes = mmap(NULL, byte_count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (bytes == MAP_FAILED)
        return error_set(error, RESULT_IO, "it cannot be mapped: %s", strerror(errno));
    *memory = (struct lazy_memory){bytes, byte_count};
    return RESULT_OK;
}

void lazy_memory_release(struct lazy_memory *memory)
{
    if (memory->bytes)
        munmap(memory->bytes, memory->byte_count);
    *memory = (struct lazy_memory){0};
}
