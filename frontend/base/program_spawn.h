/*
 * Starting another program of Shoal: found beside this one, with exactly the descriptors that it
 * needs.
 */
#ifndef SHOAL_FRONTEND_BASE_PROGRAM_SPAWN_H
#define SHOAL_FRONTEND_BASE_PROGRAM_SPAWN_H

#include <stddef.h>
#include <sys/types.h>

#include "proto/result.h"

#define PROGRAM_PATH_BYTES 4096u

/* Writes the path of `name` in the directory of this program's own file. */
enum result program_path(const char *name, char path[PROGRAM_PATH_BYTES],
                         struct error_text *error) RESULT_CHECKED;

/* A descriptor of this process and its number in the new one. */
struct program_descriptor {
    int from; /* < 0: none */
    int to;
};

struct program_start {
    const char *path;
    char *const *arguments;   /* [0] is the path; NULL-terminated */
    char *const *environment; /* NULL-terminated */
    const struct program_descriptor *descriptors;
    size_t descriptor_count;
};

/* Spawns it with these descriptors, standard input from /dev/null and standard output onto standard
 * error, so that it can never write into an answer; all other descriptors are close-on-exec. It gets
 * its own process group, because a Ctrl-C in a terminal is for this process to handle, and default
 * signal actions. RESULT_IO. */
enum result program_spawn(const struct program_start *start, pid_t *pid,
                          struct error_text *error) RESULT_CHECKED;

/* Waits until it has ended; writes how in words ("exit status 1", "killed by signal 9 (Killed)").
 * Returns the status of waitpid(). */
int program_reap(pid_t pid, struct error_text *how);

#endif
