/*
 * A thread that wakes up waits until the running thread of its core has used its time slice (about
 * 3 ms), unless it asked for shorter slices. The event loop's turns take microseconds and streams
 * wait for them, while threads that prepare prompts and images, or compute, share its cores.
 *
 * Children would inherit the slice. The flag that prevents it also takes a raised priority from
 * them, so a process with a raised priority is not changed.
 */
#include "frontend/serve/loop_priority.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS      100000u /* the kernel's minimum */
#define RESET_ON_FORK 1u

/* The kernel's struct sched_attr, which some C libraries lack. */
struct attributes {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; /* the time slice under the normal policy */
    uint64_t deadline_ns;
    uint64_t period_ns;
};

void loop_priority_raise(void)
{
    errno = 0;
    int nice = getpriority(PRIO_PROCESS, 0);
    if (nice < 0 || errno != 0 || sched_getscheduler(0) != SCHED_OTHER)
        return;
    const struct attributes wanted = {.size = sizeof wanted,
                                      .policy = SCHED_OTHER,
                                      .flags = RESET_ON_FORK,
                                      .nice = nice,
                                      .runtime_ns = SLICE_NS};
    (void)syscall(SYS_sched_setattr, 0, &wanted, 0);
}
