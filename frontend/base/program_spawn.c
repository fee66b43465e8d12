/*
 * posix_spawn() with the settings that every child of the frontend has. The program is found beside
 * this one (/proc/self/exe), never through PATH.
 */
#include "frontend/base/program_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/must.h"

enum result program_path(const char *name, char path[PROGRAM_PATH_BYTES], struct error_text *error)
{
    size_t name_bytes = strlen(name) + 1;
    ssize_t length = readlink("/proc/self/exe", path, PROGRAM_PATH_BYTES - 1 - name_bytes);
    if (length <= 0)
        return error_set(error, RESULT_IO, "cannot find this program's own file: %s",
                         strerror(errno));
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    must(slash != NULL);
    memcpy(slash + 1, name, name_bytes);
    return RESULT_OK;
}

/* 0 if every descriptor keeps its number; otherwise a number above all that they have and get. */
static int number_above(const struct program_start *start)
{
    int most = STDERR_FILENO;
    bool moves = false;
    for (size_t i = 0; i < start->descriptor_count; i++) {
        const struct program_descriptor *one = &start->descriptors[i];
        moves = moves || (one->from >= 0 && one->from != one->to);
        most = one->from > most ? one->from : most;
        most = one->to > most ? one->to : most;
    }
    return moves ? most + 1 : 0;
}

/* What the child does between fork and exec. The number that a descriptor gets may be one that
 * another has: then all are moved above those first. A descriptor that is duplicated, also onto
 * itself, loses close-on-exec. */
static int actions_fill(posix_spawn_file_actions_t *actions, const struct program_start *start)
{
    int above = number_above(start);
    int status = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (status == 0)
        status = posix_spawn_file_actions_adddup2(actions, STDERR_FILENO, STDOUT_FILENO);
    for (size_t i = 0; status == 0 && i < start->descriptor_count; i++) {
        const struct program_descriptor *one = &start->descriptors[i];
        if (one->from >= 0)
            status = posix_spawn_file_actions_adddup2(actions, one->from,
                                                      above ? above + (int)i : one->to);
    }
    for (size_t i = 0; above && status == 0 && i < start->descriptor_count; i++) {
        if (start->descriptors[i].from < 0)
            continue;
        status =
            posix_spawn_file_actions_adddup2(actions, above + (int)i, start->descriptors[i].to);
        if (status == 0)
            status = posix_spawn_file_actions_addclose(actions, above + (int)i);
    }
    return status;
}

static int attributes_fill(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    int status = posix_spawnattr_setflags(
        attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (status == 0)
        status = posix_spawnattr_setpgroup(attributes, 0);
    if (status == 0)
        status = posix_spawnattr_setsigmask(attributes, &none);
    if (status == 0)
        status = posix_spawnattr_setsigdefault(attributes, &all);
    return status;
}

enum result program_spawn(const struct program_start *start, pid_t *pid, struct error_text *error)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    must(posix_spawn_file_actions_init(&actions) == 0);
    must(posix_spawnattr_init(&attributes) == 0);
    int status = actions_fill(&actions, start);
    if (status == 0)
        status = attributes_fill(&attributes);
    if (status == 0)
        status = posix_spawn(pid, start->path, &actions, &attributes, start->arguments,
                             start->environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return status == 0 ? RESULT_OK
                       : error_set(error, RESULT_IO, "cannot start %.150s: %s", start->path,
                                   strerror(status));
}

int program_reap(pid_t pid, struct error_text *how)
{
    int status = 0;
    pid_t reaped;
    do
        reaped = waitpid(pid, &status, 0);
    while (reaped < 0 && errno == EINTR);
    must(reaped == pid);
    if (WIFSIGNALED(status))
        snprintf(how->text, sizeof how->text, "killed by signal %d (%s)%s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)),
                 WTERMSIG(status) == SIGSYS ? ": a system call that its sandbox denies" : "");
    else
        snprintf(how->text, sizeof how->text, "exit status %d", WEXITSTATUS(status));
    return status;
}
