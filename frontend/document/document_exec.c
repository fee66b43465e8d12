/*
 * Poppler's programs are not ours, so their sandbox is put on before they start: it has to admit
 * what a C++ program and its loader need, and what fontconfig reads. What it leaves out is what
 * counts: no socket, no process, no signal to another one, no file outside of the system's programs,
 * libraries and fonts, nothing that writes but the two descriptors given. A call that is not listed
 * fails with EPERM instead of killing the program, because versions differ in what they try.
 *
 * A system that cannot do this reads no PDF files.
 */
#include "frontend/document/document_exec.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "frontend/base/process_confine.h"
#include "proto/limits.h"
#include "shm/seccomp_filter.h"

#define DESCRIPTORS_MOST   64u
#define WRITTEN_BYTES_MOST (64u << 10) /* of messages; the result goes to a pipe */

static const char *const readable[] = {
    "/usr",        "/lib", "/lib64", "/etc/ld.so.cache", "/etc/fonts", "/var/cache/fontconfig",
    "/dev/urandom"};
#define READABLE (sizeof readable / sizeof readable[0])

#define ADMIT(name)                                                                                \
    {                                                                                              \
        .call = SYS_##name, .action = SECCOMP_ADMIT                                                \
    }

static const struct seccomp_rule rules[] = {
    ADMIT(read),
    ADMIT(readv),
    ADMIT(pread64),
    ADMIT(write),
    ADMIT(writev),
    ADMIT(lseek),
    ADMIT(close),
    ADMIT(fstat),
    ADMIT(newfstatat),
    ADMIT(statx),
    ADMIT(statfs),
    ADMIT(fstatfs),
    ADMIT(openat),
    ADMIT(getdents64),
    ADMIT(readlinkat),
    ADMIT(faccessat),
    ADMIT(fcntl),
    ADMIT(fadvise64),
    ADMIT(getcwd),
    ADMIT(mmap),
    ADMIT(mprotect),
    ADMIT(munmap),
    ADMIT(mremap),
    ADMIT(madvise),
    ADMIT(brk),
    ADMIT(futex),
    ADMIT(set_tid_address),
    ADMIT(set_robust_list),
    ADMIT(getrandom),
    ADMIT(prlimit64),
    ADMIT(getrlimit),
    ADMIT(clock_gettime),
    ADMIT(clock_getres),
    ADMIT(gettimeofday),
    ADMIT(uname),
    ADMIT(sysinfo),
    ADMIT(sched_getaffinity),
    ADMIT(getpid),
    ADMIT(gettid),
    ADMIT(getuid),
    ADMIT(geteuid),
    ADMIT(getgid),
    ADMIT(getegid),
    ADMIT(rt_sigaction),
    ADMIT(rt_sigprocmask),
    ADMIT(rt_sigreturn),
    ADMIT(restart_syscall),
    ADMIT(exit),
    ADMIT(exit_group),
    ADMIT(execve),
    {.call = SYS_ioctl, SECCOMP_ADMIT, SECCOMP_EQUALS, .argument = 1, .word = FIOCLEX},
#ifdef SYS_rseq
    ADMIT(rseq),
#endif
#ifdef SYS_faccessat2
    ADMIT(faccessat2),
#endif
#ifdef SYS_arch_prctl /* x86-64 and its older calls */
    ADMIT(arch_prctl),
    ADMIT(access),
    ADMIT(open),
    ADMIT(stat),
    ADMIT(lstat),
    ADMIT(readlink),
    ADMIT(time),
#endif
};
static const struct seccomp_policy policy = {rules, sizeof rules / sizeof rules[0], SECCOMP_REFUSE};

static bool confine(unsigned cpu_seconds, const char *program)
{
    const struct resource_limit limits[] = {{RLIMIT_AS, LIMIT_DOCUMENT_MEMORY_BYTES},
                                            {RLIMIT_CPU, cpu_seconds},
                                            {RLIMIT_CORE, 0},
                                            {RLIMIT_FSIZE, WRITTEN_BYTES_MOST},
                                            {RLIMIT_NOFILE, DESCRIPTORS_MOST},
                                            {RLIMIT_MEMLOCK, 0}};
    struct error_text unused;
    const char *files[READABLE + 1] = {program};
    memcpy(files + 1, readable, sizeof readable);
    process_confine_descriptors(STDERR_FILENO);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           process_confine_files(files, READABLE + 1) &&
           process_confine_resources(limits, sizeof limits / sizeof limits[0]) &&
           seccomp_filter_install(&policy, &unused) == RESULT_OK;
}

int document_exec(unsigned cpu_seconds, char *arguments[])
{
    char *const environment[] = {(char *)(size_t) "LC_ALL=C.UTF-8", NULL};
    (void)signal(SIGXFSZ, SIG_IGN); /* a write of messages beyond the limit fails */
    if (!confine(cpu_seconds, arguments[0]))
        return DOCUMENT_EXIT_OPEN;
    (void)execve(arguments[0], arguments, environment);
    return DOCUMENT_EXIT_MISSING;
}
