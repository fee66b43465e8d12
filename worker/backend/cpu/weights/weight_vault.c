/*
 * Memory without a name that outlives the worker that filled it, and the lock that decides who may
 * write it.
 *
 * All decisions rest on the kernel: seals cannot be removed and are denied while any process has
 * the memory mapped writable, so that "complete" and "never changes" are the same fact; the lock
 * belongs to a process and ends with it. So there is no flag that can be stale and no process whose
 * liveness must be checked.
 *
 * With large pages a vault of gigabytes has thousands of page-table entries instead of millions, at
 * every start and every death, and is filled several times faster. The usual setting for shared
 * memory is "never", but MADV_COLLAPSE (Linux 6.1) works under every setting but "deny". It needs
 * one present page, so one byte of each extent is touched before; and it interrupts all CPUs, so
 * many extents are requested at once. Everything works without large pages, only slower.
 *
 * The lock does not protect against a malicious process: a process with the descriptor can spoil
 * the vault before it is sealed, not after, and the manifest is checked (weight_manifest.h).
 */
#include "worker/backend/cpu/weights/weight_vault.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; older C libraries do not name it */
#endif

#define SEALS                   (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define LARGE_PAGE_BYTES        ((uint64_t)2 << 20)
#define PREPARE_BYTES           ((uint64_t)64 << 20) /* per request: about 10 ms */
#define LARGE_PAGE_FAILURES_MAX 3u
#define WAIT_LOOK_MS            2
#define WAIT_STILL_MS           20000 /* a filler without progress for so long hangs */
#define STAT_BLOCK_BYTES        512u

/* RESULT_OK: sealed; RESULT_EMPTY: not; RESULT_INVALID: never usable. */
static enum result look_at_seals(int fd, struct error_text *error)
{
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return error_set(error, RESULT_INVALID, "it cannot be sealed: %s", strerror(errno));
    if ((seals & SEALS) == SEALS)
        return RESULT_OK;
    if (seals & SEALS)
        return error_set(error, RESULT_INVALID, "it has only some of the seals");
    return RESULT_EMPTY;
}

static int lock_set(int fd, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &lock);
}

static enum result acquire_once(int fd, struct error_text *error)
{
    enum result result = look_at_seals(fd, error);
    if (result != RESULT_EMPTY)
        return result;
    if (lock_set(fd, F_WRLCK) != 0)
        return errno == EAGAIN || errno == EACCES
                   ? RESULT_FULL
                   : error_set(error, RESULT_IO, "it cannot be locked: %s", strerror(errno));
    /* The last holder of the lock may have sealed it between the two calls. */
    result = look_at_seals(fd, error);
    if (result != RESULT_EMPTY)
        weight_vault_release(fd);
    return result;
}

enum result weight_vault_acquire(int fd, uint64_t byte_count, backend_progress_fn *progress,
                                 void *context, struct error_text *error)
{
    uint64_t filled_bytes = 0;
    int still_ms = 0;
    for (;;) {
        enum result result = acquire_once(fd, error);
        if (result != RESULT_FULL)
            return result;
        struct stat status;
        if (fstat(fd, &status) != 0)
            return error_set(error, RESULT_IO, "%s", strerror(errno));
        uint64_t now_bytes = (uint64_t)status.st_blocks * STAT_BLOCK_BYTES;
        still_ms = now_bytes == filled_bytes ? still_ms + WAIT_LOOK_MS : 0;
        filled_bytes = now_bytes;
        if (still_ms >= WAIT_STILL_MS)
            return error_set(error, RESULT_TIMED_OUT, "the process that fills it stands still");
        if (progress)
            progress(context, now_bytes < byte_count ? now_bytes : byte_count, byte_count);
        nanosleep(&(struct timespec){.tv_nsec = WAIT_LOOK_MS * 1000000L}, NULL);
    }
}

/* At a multiple of the large page size: maps a little more address space and unmaps the excess at
 * both ends. */
static enum result map_aligned(int fd, uint64_t byte_count, int protection,
                               struct weight_mapping *mapping, struct error_text *error)
{
    *mapping = (struct weight_mapping){0};
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t whole = (byte_count + page - 1) / page * page;
    uint8_t *space = mmap(NULL, whole + LARGE_PAGE_BYTES, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return error_set(error, RESULT_IO, "no address space: %s", strerror(errno));
    uint64_t before = -(uintptr_t)space % LARGE_PAGE_BYTES;
    uint8_t *bytes = mmap(space + before, whole, protection, MAP_SHARED | MAP_FIXED, fd, 0);
    if (bytes == MAP_FAILED) {
        enum result result =
            error_set(error, RESULT_IO, "it cannot be mapped: %s", strerror(errno));
        munmap(space, whole + LARGE_PAGE_BYTES);
        return result;
    }
    if (before > 0)
        munmap(space, before);
    munmap(bytes + whole, LARGE_PAGE_BYTES - before);
    (void)madvise(bytes, whole, MADV_HUGEPAGE); /* without large pages it is only slower */
    *mapping = (struct weight_mapping){.bytes = bytes, .byte_count = byte_count};
    return RESULT_OK;
}

enum result weight_vault_map_empty(int fd, uint64_t byte_count, struct weight_mapping *mapping,
                                   struct error_text *error)
{
    *mapping = (struct weight_mapping){0};
    if (byte_count > INT64_MAX || ftruncate(fd, 0) != 0 || ftruncate(fd, (off_t)byte_count) != 0)
        return error_set(error, RESULT_IO, "it cannot get %llu bytes: %s",
                         (unsigned long long)byte_count, strerror(errno));
    return map_aligned(fd, byte_count, PROT_READ | PROT_WRITE, mapping, error);
}

void weight_mapping_prepare(struct weight_mapping *mapping, uint64_t end)
{
    uint64_t large_bytes = mapping->byte_count / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    while (mapping->prepared_bytes < end && mapping->prepared_bytes < large_bytes &&
           mapping->large_page_failures < LARGE_PAGE_FAILURES_MAX) {
        uint8_t *bytes = mapping->bytes + mapping->prepared_bytes;
        uint64_t left = large_bytes - mapping->prepared_bytes;
        uint64_t count = left < PREPARE_BYTES ? left : PREPARE_BYTES;
        for (uint64_t at = 0; at < count; at += LARGE_PAGE_BYTES)
            *(volatile uint8_t *)(bytes + at) = 0;
        if (madvise(bytes, count, MADV_COLLAPSE) != 0)
            mapping->large_page_failures++;
        mapping->prepared_bytes += count;
    }
}

enum result weight_vault_seal(int fd, struct weight_mapping *mapping, struct error_text *error)
{
    weight_mapping_close(mapping);
    if (fcntl(fd, F_ADD_SEALS, SEALS) != 0)
        return error_set(error, RESULT_IO, "it cannot be sealed: %s", strerror(errno));
    return RESULT_OK;
}

void weight_vault_release(int fd)
{
    struct error_text unused;
    if (look_at_seals(fd, &unused) == RESULT_EMPTY)
        (void)!ftruncate(fd, 0); /* a failure only costs memory */
    (void)lock_set(fd, F_UNLCK);
}

enum result weight_vault_map_sealed(int fd, uint64_t byte_count, struct weight_mapping *mapping,
                                    struct error_text *error)
{
    struct stat status;
    *mapping = (struct weight_mapping){0};
    if (fstat(fd, &status) != 0)
        return error_set(error, RESULT_IO, "%s", strerror(errno));
    if (status.st_size < 0 || (uint64_t)status.st_size != byte_count)
        return error_set(error, RESULT_STALE, "M5: it has %lld bytes, not %llu",
                         (long long)status.st_size, (unsigned long long)byte_count);
    return map_aligned(fd, byte_count, PROT_READ, mapping, error);
}

void weight_mapping_close(struct weight_mapping *mapping)
{
    if (mapping->bytes)
        munmap(mapping->bytes, mapping->byte_count);
    *mapping = (struct weight_mapping){0};
}
