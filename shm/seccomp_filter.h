/*
 * System call filters: a table of rules, compiled to a seccomp program and installed for every
 * thread of this process.
 *
 * The first rule that matches a call decides; without one the policy's default does. A program
 * begins with two rules that no policy can change: a call of another architecture, or with x32's
 * numbers, kills the process.
 */
#ifndef SHOAL_SHM_SECCOMP_FILTER_H
#define SHOAL_SHM_SECCOMP_FILTER_H

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

enum seccomp_action {
    SECCOMP_ADMIT,
    SECCOMP_REFUSE, /* the call fails with EPERM */
    SECCOMP_KILL    /* SIGSYS ends the process; it cannot be caught */
};

/* A condition on the low 32 bits of one argument. The kernel ignores the high ones of an int; do
 * not test a pointer or a size. */
enum seccomp_test {
    SECCOMP_ALWAYS,
    SECCOMP_EQUALS,    /* the argument is `word` */
    SECCOMP_HAS_ANY_OF /* the argument has a bit of `word` */
};

struct seccomp_rule {
    uint32_t call; /* SYS_* */
    enum seccomp_action action;
    enum seccomp_test test;
    uint32_t argument; /* 0 to 5 */
    uint32_t word;
};

struct seccomp_policy {
    const struct seccomp_rule *rules;
    size_t rule_count;
    enum seccomp_action otherwise;
};

/* Instructions of a program with so many rules, at most. */
#define SECCOMP_PROGRAM_MOST(rules) (7 + 5 * (rules))

/*
 * Writes the program of `policy` for this architecture and sets `*length`. `capacity`: elements of
 * `program`. RESULT_TOO_LARGE if it does not fit, RESULT_UNSUPPORTED on an architecture other than
 * x86-64 and AArch64, RESULT_INVALID for an argument above 5.
 */
enum result seccomp_filter_build(const struct seccomp_policy *policy, struct sock_filter *program,
                                 size_t capacity, size_t *length) RESULT_CHECKED;
/*
 * Installs the program in all threads of this process, irreversibly, and for all its children; the
 * process can gain no privileges afterwards (PR_SET_NO_NEW_PRIVS). RESULT_UNSUPPORTED, with the
 * reason, if the kernel has no seccomp filters or the architecture is not known.
 */
enum result seccomp_filter_install(const struct seccomp_policy *policy,
                                   struct error_text *error) RESULT_CHECKED;

#endif
