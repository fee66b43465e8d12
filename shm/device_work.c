#include "shm/device_work.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(offsetof(struct device_work, finished) == 64, "the device's own cache line");

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static enum result map(int fd, int protection, void **mapped, struct error_text *error)
{
    *mapped = mmap(NULL, DEVICE_WORK_BYTES, protection, MAP_SHARED, fd, 0);
    if (*mapped == MAP_FAILED)
        return error_set(error, RESULT_IO, "marks of device work: mmap: %s", strerror(errno));
    return RESULT_OK;
}

enum result device_work_create(int *fd, const struct device_work **work, struct error_text *error)
{
    void *mapped = NULL;
    *fd = memfd_create("shoal-device-work", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0)
        return error_set(error, RESULT_IO, "marks of device work: memfd_create: %s",
                         strerror(errno));
    enum result result = RESULT_OK;
    if (ftruncate(*fd, DEVICE_WORK_BYTES) != 0 || fcntl(*fd, F_ADD_SEALS, SEALS) != 0)
        result = error_set(error, RESULT_IO, "marks of device work: %s", strerror(errno));
    if (result == RESULT_OK)
        result = map(*fd, PROT_READ, &mapped, error);
    if (result != RESULT_OK) {
        close(*fd);
        *fd = -1;
        return result;
    }
    *work = mapped;
    return RESULT_OK;
}

enum result device_work_open(int fd, struct device_work **work, struct error_text *error)
{
    struct stat status;
    void *mapped = NULL;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size != DEVICE_WORK_BYTES)
        return error_set(error, RESULT_CORRUPT, "marks of device work: not %u bytes of memory",
                         DEVICE_WORK_BYTES);
    enum result result = map(fd, PROT_READ | PROT_WRITE, &mapped, error);
    if (result == RESULT_OK)
        *work = mapped;
    return result;
}

void device_work_close(const struct device_work *work)
{
    if (work)
        munmap((void *)(uintptr_t)work, DEVICE_WORK_BYTES);
}

bool device_work_is_finished(const struct device_work *work)
{
    return atomic_load_explicit(&work->marked, memory_order_acquire) == 1 &&
           atomic_load_explicit(&work->finished, memory_order_acquire) ==
               atomic_load_explicit(&work->submitted, memory_order_acquire);
}
