/*
 * What is left of a worker process: marks from which another process learns that the process is gone
 * and that its device has finished, before the process can be reaped.
 *
 * A process that is killed leaves memory first, then its descriptors, and can be reaped last. In between
 * a driver takes down what the process had: 9 ms a GB on an H200 for memory that it had imported. The
 * device meanwhile finishes what was submitted, within milliseconds.
 *
 * A worker therefore counts each submission here before it makes it, and the device counts each when it
 * has finished. If both counts are equal once no thread of the process runs, the device writes no more for
 * it. A process that ends between counting and submitting leaves unequal counts: then only its reaping
 * shows the end.
 *
 * The page is a memfd with seals against other sizes. It belongs to one process of a worker, which may
 * write anything into it: readers take it as a hint about that process and bound every value.
 */
#ifndef SHOAL_SHM_DEVICE_WORK_H
#define SHOAL_SHM_DEVICE_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"

#define DEVICE_WORK_BYTES 65536u /* drivers import whole pages, some of 64 kB */

struct device_work {
    _Atomic uint32_t marked;       /* 1: the device counts */
    _Atomic uint32_t crash_signal; /* that the process got from the kernel for a fault, or 0 */
    _Atomic uint32_t submitted;
    _Alignas(64) _Atomic uint32_t finished; /* by the device */
};

/* Makes the memory and maps it for reading; the caller closes *fd. RESULT_IO. */
enum result device_work_create(int *fd, const struct device_work **work,
                               struct error_text *error) RESULT_CHECKED;
/* Maps it for writing, DEVICE_WORK_BYTES of them. RESULT_IO, RESULT_CORRUPT if it has another size. */
enum result device_work_open(int fd, struct device_work **work,
                             struct error_text *error) RESULT_CHECKED;
/* NULL is allowed. */
void device_work_close(const struct device_work *work);

/* True if the device marks its work and has finished everything that was counted. */
bool device_work_is_finished(const struct device_work *work);

#endif
