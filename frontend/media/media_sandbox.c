/*
 * Each part holds alone: seccomp leaves no system call that reaches another process or a file,
 * Landlock and the limits hold if a kernel has no seccomp, and no part needs privileges.
 *
 * seccomp admits the system calls of a table; mmap is admitted without PROT_EXEC only, so code
 * cannot be brought in; there is no mprotect, and nothing that makes a descriptor.
 */
#include "frontend/media/media_sandbox.h"

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

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DESCRIPTORS_MOST 4u
#define LIFE_SECONDS     (LIMIT_MEDIA_LIFE_CPU_MS / 1000 + 60) /* and the longest image's budget */

/* --- descriptors and limits ------------------------------------------------------------------- */

static void close_above(int kept_fd)
{
    unsigned first = (unsigned)kept_fd + 1;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, ~0u, 0) == 0)
        return;
#endif
    struct rlimit limit = {.rlim_cur = 1024};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    for (unsigned fd = first; fd < limit.rlim_cur && fd < 65536; fd++)
        (void)close((int)fd);
}

static bool set_limits(void)
{
    const struct {
        int resource;
        rlim_t most;
    } limits[] = {{RLIMIT_AS, LIMIT_MEDIA_MEMORY_BYTES},
                  {RLIMIT_CPU, LIFE_SECONDS},
                  {RLIMIT_CORE, 0},
                  {RLIMIT_FSIZE, 0}, /* pixels are written through a mapping */
                  {RLIMIT_NOFILE, DESCRIPTORS_MOST},
                  {RLIMIT_NPROC, 0},
                  {RLIMIT_MEMLOCK, 0}};
    bool set = true;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct rlimit limit = {limits[i].most, limits[i].most};
        struct rlimit now;
        if (getrlimit((__rlimit_resource_t)limits[i].resource, &now) == 0 &&
            now.rlim_max < limit.rlim_max)
            limit = (struct rlimit){now.rlim_max, now.rlim_max};
        set = setrlimit((__rlimit_resource_t)limits[i].resource, &limit) == 0 && set;
    }
    return set;
}

/* --- Landlock --------------------------------------------------------------------------------- */

/* As <linux/landlock.h> of Linux 6.12, which a build machine may not have. */
struct landlock_attributes {
    uint64_t files;
    uint64_t network;
    uint64_t scoped;
};
#define LANDLOCK_CREATE   444
#define LANDLOCK_RESTRICT 446
#define LANDLOCK_VERSION  1u

/* Denies all rights that this kernel knows: a ruleset without rules. */
static bool deny_files(void)
{
    long version = syscall(LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION);
    if (version < 1)
        return false;
    unsigned file_rights = version >= 5 ? 16 : version >= 3 ? 15 : version >= 2 ? 14 : 13;
    const struct landlock_attributes all = {.files = (1ull << file_rights) - 1,
                                            .network = version >= 4 ? 3 : 0,
                                            .scoped = version >= 6 ? 3 : 0};
    size_t bytes = version >= 6   ? sizeof all
                   : version >= 4 ? offsetof(struct landlock_attributes, scoped)
                                  : offsetof(struct landlock_attributes, network);
    long ruleset = syscall(LANDLOCK_CREATE, &all, bytes, 0);
    if (ruleset < 0)
        return false;
    bool denied = syscall(LANDLOCK_RESTRICT, (int)ruleset, 0) == 0;
    (void)close((int)ruleset);
    return denied;
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
    close_above(kept_fd);
    debug_access_deny();
    bool unprivileged = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    if ((parts & MEDIA_SANDBOX_LANDLOCK) && unprivileged && deny_files())
        done |= MEDIA_SANDBOX_LANDLOCK;
    if ((parts & MEDIA_SANDBOX_LIMITS) && set_limits())
        done |= MEDIA_SANDBOX_LIMITS;
    if ((parts & MEDIA_SANDBOX_SECCOMP) && unprivileged &&
        seccomp_filter_install(&policy, NULL) == RESULT_OK)
        done |= MEDIA_SANDBOX_SECCOMP;
    return done;
}

#endif
