/*
 * What a worker that has loaded its model may still ask of the kernel.
 */
#ifndef SHOAL_WORKER_SCHEDULE_WORKER_SANDBOX_H
#define SHOAL_WORKER_SCHEDULE_WORKER_SANDBOX_H

#include <stdbool.h>

#include "proto/device_name.h"

enum worker_sandbox {
    WORKER_SANDBOX_AUTO, /* whatever the kernel and the device allow */
    WORKER_SANDBOX_OFF
};

/* "auto" or "off": 0, or -1. */
int worker_sandbox_parse(const char *text, enum worker_sandbox *sandbox);
const char *worker_sandbox_name(enum worker_sandbox sandbox);

/*
 * Confines every thread of this process, irreversibly, and logs the result in one line. A call that
 * the filter denies ends the process with SIGSYS. For a process that has opened all of its files.
 *
 * On the CPU a table admits what steps need: memory without code, threads that exist, the descriptors
 * that are open. On a Vulkan device drivers may open files and devices and start threads; programs,
 * sockets other than local ones, debugging and administration are denied.
 *
 * Does nothing but log if `sandbox` is off, the kernel has no seccomp, or this is a build with
 * sanitizers.
 */
void worker_sandbox_enter(enum worker_sandbox sandbox, enum device_kind device);

#endif
