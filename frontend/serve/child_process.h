/*
 * The worker as an operating-system process: spawn with exactly the descriptors that it needs,
 * kill, reap.
 */
#ifndef SHOAL_FRONTEND_SERVE_CHILD_PROCESS_H
#define SHOAL_FRONTEND_SERVE_CHILD_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "frontend/serve/options.h"
#include "frontend/serve/worker_link.h"

struct child_process {
    pid_t pid; /* 0: none */
    int pid_fd;
};

/* Spawns the `shoal-worker` beside this program's own file. Called from the thread that lives as
 * long as this process: the kernel kills the worker when that thread ends. weights_fd: the vault
 * (weight_holder.h), or -1. */
enum result child_process_spawn(const struct options *options, const struct worker_link_fds *fds,
                                int weights_fd, uint32_t worker_index,
                                struct child_process *process,
                                struct error_text *error) RESULT_CHECKED;
void child_process_kill(const struct child_process *process);
/* Waits until it has ended; writes how in words ("exit status 1", "killed by signal 9 (Killed)").
 * True for exit status 0. */
bool child_process_reap(struct child_process *process, struct error_text *how);

#endif
