/*
 * A seccomp program is a list of comparisons of words of `struct seccomp_data` that jumps only
 * forwards. A rule without a condition is one comparison and one return; with a condition, the
 * argument's word is loaded in between, and the call's number again if it does not match. Linux
 * keeps a table of the calls that a program always admits, so these cost nothing at run time.
 */
#include "shm/seccomp_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/must.h"

/* Both have 64-bit little-endian arguments; the numbers of x32, on x86-64, begin at X32_CALLS. */
#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define OWN_ARCHITECTURE 0
#endif
#define X32_CALLS     0x40000000u
#define ARGUMENTS_END 6u

#define FIELD(name) ((uint32_t)offsetof(struct seccomp_data, name))
#define LOAD(at)    ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at)))
#define RETURN(how) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, (how)))
/* Compares the loaded word with `word`; skips `if_true` or `if_false` instructions. */
#define COMPARE(test, word, if_true, if_false)                                                     \
    ((struct sock_filter)BPF_JUMP(BPF_JMP | (test) | BPF_K, (word), (if_true), (if_false)))

static struct sock_filter return_of(enum seccomp_action action)
{
    if (action == SECCOMP_ADMIT)
        return RETURN(SECCOMP_RET_ALLOW);
    return action == SECCOMP_REFUSE ? RETURN(SECCOMP_RET_ERRNO | EPERM)
                                    : RETURN(SECCOMP_RET_KILL_PROCESS);
}

static size_t write_rule(const struct seccomp_rule *rule, struct sock_filter *at)
{
    if (rule->test == SECCOMP_ALWAYS) {
        at[0] = COMPARE(BPF_JEQ, rule->call, 0, 1);
        at[1] = return_of(rule->action);
        return 2;
    }
    uint32_t low_word = FIELD(args) + rule->argument * (uint32_t)sizeof(uint64_t);
    at[0] = COMPARE(BPF_JEQ, rule->call, 0, 4);
    at[1] = LOAD(low_word);
    at[2] = COMPARE(rule->test == SECCOMP_EQUALS ? BPF_JEQ : BPF_JSET, rule->word, 0, 1);
    at[3] = return_of(rule->action);
    at[4] = LOAD(FIELD(nr));
    return 5;
}

enum result seccomp_filter_build(const struct seccomp_policy *policy, struct sock_filter *program,
                                 size_t capacity, size_t *length)
{
    if (OWN_ARCHITECTURE == 0)
        return RESULT_UNSUPPORTED;
    if (capacity < SECCOMP_PROGRAM_MOST(policy->rule_count) || capacity > BPF_MAXINSNS)
        return RESULT_TOO_LARGE;
    size_t at = 0;
    program[at++] = LOAD(FIELD(arch));
    program[at++] = COMPARE(BPF_JEQ, OWN_ARCHITECTURE, 1, 0);
    program[at++] = RETURN(SECCOMP_RET_KILL_PROCESS);
    program[at++] = LOAD(FIELD(nr));
    program[at++] = COMPARE(BPF_JGE, X32_CALLS, 0, 1);
    program[at++] = RETURN(SECCOMP_RET_KILL_PROCESS);
    for (size_t i = 0; i < policy->rule_count; i++) {
        if (policy->rules[i].argument >= ARGUMENTS_END)
            return RESULT_INVALID;
        at += write_rule(&policy->rules[i], program + at);
    }
    program[at++] = return_of(policy->otherwise);
    *length = at;
    return RESULT_OK;
}

enum result seccomp_filter_install(const struct seccomp_policy *policy, struct error_text *error)
{
    size_t capacity = SECCOMP_PROGRAM_MOST(policy->rule_count);
    size_t length = 0;
    struct sock_filter *instructions = must_alloc(capacity, sizeof *instructions);
    enum result result = seccomp_filter_build(policy, instructions, capacity, &length);
    if (result != RESULT_OK) {
        (void)error_set(error, result, "no system call filter: %s", result_name(result));
        goto out;
    }
    const struct sock_fprog program = {.len = (unsigned short)length, .filter = instructions};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        result = error_set(error, RESULT_UNSUPPORTED, "PR_SET_NO_NEW_PRIVS: %s", strerror(errno));
        goto out;
    }
    /* A positive result is the thread that could not take the filter. */
    long status =
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (status != 0)
        result = error_set(error, RESULT_UNSUPPORTED, "seccomp: %s",
                           status < 0 ? strerror(errno) : "a thread has a filter of its own");
out:
    free(instructions);
    return result;
}
