/*
 * Each part holds alone: seccomp leaves no system call that reaches another process or a file,
 * Landlock and the limits hold if a kernel has no seccomp, and no part needs privileges.
 *
 * seccomp admits the system calls of a table; mmap is admitted without PROT_EXEC only, so code
 * cannot be brought in; there is no mprotect, and nothing that makes a descriptor.
 */
#include "frontend/media/media_sandbox.h"

#include "frontend/base/process_confine.h"
#include "frontend/media/media_record.h"
#include "proto/limits.h"
#include "shm/debug_access.h"
#include "shm/seccomp_filter.h"

#ifdef SHOAL_SANITIZED

uint32_t media_sandbox_enter(int kept_fd, uint32_t parts)
{
    (void)kept_fd;
    (void)parts;
    return 0;
}

#else

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define DESCRIPTORS_MOST 4u
#define LIFE_SECONDS     (LIMIT_MEDIA_LIFE_CPU_MS / 1000 + 600) /* and the longest video's budget */

static bool set_limits(void)
{
    static const struct resource_limit limits[] = {
        {RLIMIT_AS, LIMIT_MEDIA_MEMORY_BYTES},
        {RLIMIT_CPU, LIFE_SECONDS},
        {RLIMIT_CORE, 0},
        {RLIMIT_FSIZE, 0}, /* pixels are written through a mapping */
        {RLIMIT_NOFILE, DESCRIPTORS_MOST},
        {RLIMIT_NPROC, 0},
        {RLIMIT_MEMLOCK, 0}};
    return process_confine_resources(limits, sizeof limits / sizeof limits[0]);
}

/* --- seccomp ---------------------------------------------------------------------------------- */

#define ADMIT(name)                                                                                \
    {                                                                                              \
        .call = SYS_##name, .action = SECCOMP_ADMIT                                                \
    }

/* Requests and replies, memory, the end; futex, clock_gettime and getrandom for the C library. */
static const struct seccomp_rule rules[] = {
    ADMIT(recvfrom),
    ADMIT(sendto),
    {.call = SYS_mmap, SECCOMP_KILL, SECCOMP_HAS_ANY_OF, .argument = 2, .word = PROT_EXEC},
    ADMIT(mmap),
    ADMIT(munmap),
    ADMIT(mremap),
    ADMIT(madvise),
    ADMIT(brk),
    ADMIT(futex),
    ADMIT(clock_gettime),
    ADMIT(getrandom),
    ADMIT(exit),
    ADMIT(exit_group),
    ADMIT(rt_sigreturn),
    ADMIT(restart_syscall),
};
static const struct seccomp_policy policy = {rules, sizeof rules / sizeof rules[0], SECCOMP_KILL};

uint32_t media_sandbox_enter(int kept_fd, uint32_t parts)
{
    uint32_t done = 0;
    process_confine_descriptors(kept_fd);
    debug_access_deny();
    bool unprivileged = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    if ((parts & MEDIA_SANDBOX_LANDLOCK) && unprivileged && process_confine_files(NULL, 0))
        done |= MEDIA_SANDBOX_LANDLOCK;
    if ((parts & MEDIA_SANDBOX_LIMITS) && set_limits())
        done |= MEDIA_SANDBOX_LIMITS;
    if ((parts & MEDIA_SANDBOX_SECCOMP) && unprivileged &&
        seccomp_filter_install(&policy, NULL) == RESULT_OK)
        done |= MEDIA_SANDBOX_SECCOMP;
    return done;
}

#endif
