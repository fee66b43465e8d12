/*
 * The first matching rule decides, on the call's number and the low word of an argument; foreign
 * architectures are killed; an installed program holds in threads that exist already.
 */
// tags: threads
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/seccomp_filter.h"

#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif
#define REFUSED (SECCOMP_RET_ERRNO | EPERM)

#define PROGRAM_MOST 64

static const struct seccomp_rule rules[] = {
    {.call = SYS_read, .action = SECCOMP_ADMIT},
    {.call = SYS_mmap, .action = SECCOMP_KILL, SECCOMP_HAS_ANY_OF, .argument = 2, PROT_EXEC},
    {.call = SYS_mmap, .action = SECCOMP_ADMIT},
    {.call = SYS_tgkill, .action = SECCOMP_ADMIT, SECCOMP_EQUALS, .argument = 0, .word = 77},
    {.call = SYS_tgkill, .action = SECCOMP_REFUSE},
    {.call = SYS_read, .action = SECCOMP_KILL}, /* a rule for read came before */
};
static const struct seccomp_policy policy = {rules, sizeof rules / sizeof rules[0], SECCOMP_KILL};

/* What the kernel's interpreter returns; fails the test on an instruction that it does not have. */
static uint32_t interpret(const struct sock_filter *program, size_t length,
                          const struct seccomp_data *data)
{
    uint32_t word = 0;
    for (size_t at = 0; at < length; at++) {
        const struct sock_filter *step = &program[at];
        bool holds = false;
        switch (step->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(step->k % 4 == 0 && step->k < sizeof *data);
            word = *(const uint32_t *)((const char *)data + step->k);
            continue;
        case BPF_RET | BPF_K: return step->k;
        case BPF_JMP | BPF_JEQ | BPF_K: holds = word == step->k; break;
        case BPF_JMP | BPF_JGE | BPF_K: holds = word >= step->k; break;
        case BPF_JMP | BPF_JSET | BPF_K: holds = (word & step->k) != 0; break;
        default: fail_msg("instruction %#x", step->code);
        }
        at += holds ? step->jt : step->jf;
    }
    fail_msg("the program ran past its end");
    return 0;
}

static uint32_t decide(struct seccomp_data data)
{
    struct sock_filter program[PROGRAM_MOST];
    size_t length = 0;
    assert_int_equal(seccomp_filter_build(&policy, program, PROGRAM_MOST, &length), RESULT_OK);
    return interpret(program, length, &data);
}

static void the_first_matching_rule_decides(void **state)
{
    (void)state;
    const uint32_t own = OWN_ARCHITECTURE;
    assert_int_equal(decide((struct seccomp_data){SYS_read, own, 0, {0}}), SECCOMP_RET_ALLOW);
    assert_int_equal(decide((struct seccomp_data){SYS_write, own, 0, {0}}),
                     SECCOMP_RET_KILL_PROCESS);
    struct seccomp_data map = {SYS_mmap, own, 0, {0, 4096, PROT_READ | PROT_WRITE, PROT_EXEC}};
    assert_int_equal(decide(map), SECCOMP_RET_ALLOW);
    map.args[2] |= PROT_EXEC;
    assert_int_equal(decide(map), SECCOMP_RET_KILL_PROCESS);
    struct seccomp_data signal_own = {SYS_tgkill, own, 0, {77, 1, SIGABRT}};
    assert_int_equal(decide(signal_own), SECCOMP_RET_ALLOW);
    signal_own.args[0] = 78;
    assert_int_equal(decide(signal_own), REFUSED);
}

static void other_architectures_are_killed(void **state)
{
    (void)state;
    assert_int_equal(decide((struct seccomp_data){SYS_read, AUDIT_ARCH_I386, 0, {0}}),
                     SECCOMP_RET_KILL_PROCESS);
    const struct seccomp_data x32 = {SYS_read | 0x40000000, OWN_ARCHITECTURE, 0, {0}};
    assert_int_equal(decide(x32), SECCOMP_RET_KILL_PROCESS);
    /* A policy that admits every other call does not admit those of x32. */
    const struct seccomp_policy admit_all = {rules, 0, SECCOMP_ADMIT};
    struct sock_filter program[PROGRAM_MOST];
    size_t length = 0;
    assert_int_equal(seccomp_filter_build(&admit_all, program, PROGRAM_MOST, &length), RESULT_OK);
    assert_int_equal(interpret(program, length, &x32), SECCOMP_RET_KILL_PROCESS);
    const struct seccomp_data own = {SYS_read, OWN_ARCHITECTURE, 0, {0}};
    assert_int_equal(interpret(program, length, &own), SECCOMP_RET_ALLOW);
}

static void the_longest_program_of_the_kernel_is_a_capacity(void **state)
{
    (void)state;
    static struct sock_filter program[BPF_MAXINSNS + 1];
    size_t length = 0;
    assert_int_equal(seccomp_filter_build(&policy, program, BPF_MAXINSNS, &length), RESULT_OK);
    assert_int_equal(seccomp_filter_build(&policy, program, BPF_MAXINSNS + 1, &length),
                     RESULT_TOO_LARGE);
}

static void bad_policies_are_refused(void **state)
{
    (void)state;
    struct sock_filter program[PROGRAM_MOST];
    size_t length = 0;
    assert_int_equal(seccomp_filter_build(&policy, program,
                                          SECCOMP_PROGRAM_MOST(policy.rule_count) - 1, &length),
                     RESULT_TOO_LARGE);
    const struct seccomp_rule seventh = {SYS_read, SECCOMP_KILL, SECCOMP_EQUALS, 6, 0};
    const struct seccomp_policy bad = {&seventh, 1, SECCOMP_ADMIT};
    assert_int_equal(seccomp_filter_build(&bad, program, PROGRAM_MOST, &length), RESULT_INVALID);
}

/* --- installed, in a child ------------------------------------------------------------------- */

static const struct seccomp_rule denied[] = {
    {.call = SYS_sethostname, .action = SECCOMP_REFUSE},
    {.call = SYS_socket, .action = SECCOMP_KILL},
};
static const struct seccomp_policy deny_list = {denied, sizeof denied / sizeof denied[0],
                                                SECCOMP_ADMIT};
static atomic_bool installed;

static void *call_socket(void *unused)
{
    (void)unused;
    while (!atomic_load(&installed))
        sched_yield();
    (void)socket(AF_INET, SOCK_STREAM, 0);
    return NULL;
}

/* 2: no filter, 3: the refused call did not fail as it must, 0: the killing call came back. */
static int violate(void)
{
    struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    pthread_t thread;
    if (pthread_create(&thread, NULL, call_socket, NULL) != 0)
        return 2;
    if (seccomp_filter_install(&deny_list, NULL) != RESULT_OK)
        return 2;
    errno = 0;
    if (syscall(SYS_sethostname, NULL, -1) != -1 || errno != EPERM)
        return 3;
    atomic_store(&installed, true);
    pthread_join(thread, NULL);
    return 0;
}

static void a_violation_in_an_older_thread_ends_the_process(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(violate());
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSYS);
}

static const struct seccomp_rule no_filter[] = {
    {.call = SYS_seccomp, .action = SECCOMP_REFUSE},
};
static const struct seccomp_policy no_second_filter = {no_filter, 1, SECCOMP_ADMIT};

/* 2: the first filter was not installed, 3: the second was, 4: the error does not give the kernel's
 * reason. */
static int install_twice(void)
{
    struct error_text error = {""};
    if (seccomp_filter_install(&no_second_filter, NULL) != RESULT_OK)
        return 2;
    if (seccomp_filter_install(&deny_list, &error) != RESULT_UNSUPPORTED)
        return 3;
    return strcmp(error.text, "seccomp: Operation not permitted") == 0 ? 0 : 4;
}

static void a_refused_filter_is_an_error_with_its_reason(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(install_twice());
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_matching_rule_decides),
        cmocka_unit_test(other_architectures_are_killed),
        cmocka_unit_test(the_longest_program_of_the_kernel_is_a_capacity),
        cmocka_unit_test(bad_policies_are_refused),
        cmocka_unit_test(a_violation_in_an_older_thread_ends_the_process),
        cmocka_unit_test(a_refused_filter_is_an_error_with_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
