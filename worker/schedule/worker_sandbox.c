/*
 * A worker parses foreign checkpoints and computes on foreign tokens. It opens what it needs while
 * it loads; afterwards it reads and writes open descriptors, waits, and allocates memory. So the
 * filter is installed between loading and the first request, and covers the threads that exist.
 *
 * CPU: everything outside a table is denied: files, sockets, programs, new threads, signals to
 * others, memory that can be executed. What only an attacker does kills the process; any other call
 * fails with EPERM, because a C library of another version may make one that nothing depends on.
 * Vulkan: drivers differ in what they need while they run, so
 * only calls that no driver can need are denied.
 */
#include "worker/schedule/worker_sandbox.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/log.h"
#include "shm/seccomp_filter.h"

static const char *const names[] = {[WORKER_SANDBOX_AUTO] = "auto", [WORKER_SANDBOX_OFF] = "off"};

int worker_sandbox_parse(const char *text, enum worker_sandbox *sandbox)
{
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *sandbox = (enum worker_sandbox)i;
            return 0;
        }
    }
    return -1;
}

const char *worker_sandbox_name(enum worker_sandbox sandbox)
{
    return names[sandbox];
}

#ifdef SHOAL_SANITIZED

void worker_sandbox_enter(enum worker_sandbox sandbox, enum device_kind device)
{
    (void)sandbox;
    (void)device;
    log_info("sandbox: none: a build with sanitizers");
}

#else

#define ADMIT(name)                                                                                \
    {                                                                                              \
        .call = SYS_##name, .action = SECCOMP_ADMIT                                                \
    }
#define KILL(name)                                                                                 \
    {                                                                                              \
        .call = SYS_##name, .action = SECCOMP_KILL                                                 \
    }
#define KILL_CODE(name)                                                                            \
    {                                                                                              \
        .call = SYS_##name, SECCOMP_KILL, SECCOMP_HAS_ANY_OF, .argument = 2, .word = PROT_EXEC     \
    }

#define REFUSE(name)                                                                               \
    {                                                                                              \
        .call = SYS_##name, .action = SECCOMP_REFUSE                                               \
    }
#define KILL_WRITING(name, flags)                                                                  \
    {                                                                                              \
        .call = SYS_##name, SECCOMP_KILL, SECCOMP_HAS_ANY_OF, .argument = flags,                   \
        .word = O_WRONLY | O_RDWR | O_CREAT                                                        \
    }

static const struct seccomp_rule cpu_rules[] = {
    /* abort(); signals to this process have rules of their own */
    ADMIT(getpid),
    ADMIT(gettid),
    ADMIT(rt_sigprocmask),
    /* waiting: threads, doorbells, the frontend's end */
    ADMIT(futex),
    ADMIT(read),
    ADMIT(preadv2),
    ADMIT(write),
    ADMIT(writev),
    ADMIT(ppoll),
#ifdef SYS_poll
    ADMIT(poll),
#endif
    ADMIT(sched_yield),
#ifdef SYS_pause
    ADMIT(pause),
#endif
    ADMIT(nanosleep),
    ADMIT(clock_nanosleep),
    ADMIT(clock_gettime),
    ADMIT(restart_syscall),
    ADMIT(rt_sigreturn),
    /* entries of the adapters' memory */
    ADMIT(pread64),
    ADMIT(lseek),
    /* the first instructions of a thread that was made just before */
    ADMIT(set_robust_list),
#ifdef SYS_rseq
    ADMIT(rseq),
#endif
    /* memory; the first use of malloc() in a thread counts the CPUs */
    KILL_CODE(mmap),
    ADMIT(mmap),
    KILL_CODE(mprotect),
    ADMIT(mprotect),
    ADMIT(munmap),
    ADMIT(mremap),
    ADMIT(madvise),
    ADMIT(brk),
    ADMIT(sched_getaffinity),
    ADMIT(sysinfo), /* qsort() asks once how much memory it may take */
    ADMIT(getrandom),
/* what an attacker needs: files, sockets, programs, processes */
#ifdef SYS_open
    KILL_WRITING(open, 1),
    REFUSE(open),
    KILL(fork),
    KILL(vfork),
#endif
    KILL_WRITING(openat, 2),
    REFUSE(openat), /* free() asks a file whether a thread's heap may shrink, and keeps it if not */
    KILL(openat2),
    KILL(socket),
    KILL(connect),
    KILL(execve),
    KILL(execveat),
    KILL(clone),
    KILL(clone3),
    KILL(ptrace),
    KILL(process_vm_readv),
    KILL(process_vm_writev),
    /* the end of a drained worker */
    ADMIT(close),
    ADMIT(exit),
    ADMIT(exit_group),
};

static const struct seccomp_rule vulkan_rules[] = {
    /* programs, and other processes */
    KILL(execve),
    KILL(execveat),
    KILL(ptrace),
    KILL(process_vm_readv),
    KILL(process_vm_writev),
    KILL(setns),
    KILL(unshare),
    /* the network: drivers speak to local daemons and to the kernel */
    {.call = SYS_socket, SECCOMP_ADMIT, SECCOMP_EQUALS, .argument = 0, .word = AF_UNIX},
    {.call = SYS_socket, SECCOMP_ADMIT, SECCOMP_EQUALS, .argument = 0, .word = AF_NETLINK},
    KILL(socket),
    KILL(listen),
    KILL(accept),
    KILL(accept4),
    /* interfaces of the kernel that have been used to attack it */
    KILL(bpf),
    KILL(userfaultfd),
    KILL(io_uring_setup),
    KILL(add_key),
    KILL(request_key),
    KILL(keyctl),
    KILL(kexec_load),
    KILL(init_module),
    KILL(finit_module),
    KILL(delete_module),
    /* administration */
    KILL(mount),
    KILL(umount2),
    KILL(pivot_root),
    KILL(chroot),
    KILL(swapon),
    KILL(swapoff),
    KILL(reboot),
    KILL(acct),
    KILL(quotactl),
    KILL(sethostname),
    KILL(setdomainname),
    KILL(settimeofday),
    KILL(clock_settime),
    KILL(adjtimex),
    KILL(open_by_handle_at),
    KILL(mknodat),
    KILL(setuid),
    KILL(setgid),
    KILL(setreuid),
    KILL(setregid),
    KILL(setresuid),
    KILL(setresgid),
    KILL(setgroups),
    KILL(capset),
};

static enum result admit_steps(struct error_text *error)
{
    static const uint32_t signals[] = {SYS_tgkill, SYS_kill}; /* abort() uses the first */
    const size_t fixed = sizeof cpu_rules / sizeof cpu_rules[0];
    const size_t count = fixed + sizeof signals / sizeof signals[0];
    struct seccomp_rule
        rules[sizeof cpu_rules / sizeof cpu_rules[0] + sizeof signals / sizeof signals[0]];
    memcpy(rules, cpu_rules, sizeof cpu_rules);
    for (size_t i = fixed; i < count; i++)
        rules[i] = (struct seccomp_rule){.call = signals[i - fixed],
                                         .action = SECCOMP_ADMIT,
                                         .test = SECCOMP_EQUALS,
                                         .argument = 0,
                                         .word = (uint32_t)getpid()};
    return seccomp_filter_install(&(struct seccomp_policy){rules, count, SECCOMP_REFUSE}, error);
}

static enum result deny_others(struct error_text *error)
{
    const struct seccomp_policy policy = {
        vulkan_rules, sizeof vulkan_rules / sizeof vulkan_rules[0], SECCOMP_ADMIT};
    return seccomp_filter_install(&policy, error);
}

void worker_sandbox_enter(enum worker_sandbox sandbox, enum device_kind device)
{
    if (sandbox == WORKER_SANDBOX_OFF) {
        log_info("sandbox: none, as --worker-sandbox off requests");
        return;
    }
    struct error_text error;
    if ((device == DEVICE_CPU ? admit_steps(&error) : deny_others(&error)) != RESULT_OK)
        log_warn("sandbox: none: %s", error.text);
    else if (device == DEVICE_CPU)
        log_info("sandbox: system calls of steps only; no files, sockets, programs or new threads");
    else
        log_info("sandbox: no programs, network sockets, debugging or administration");
}

#endif
