/*
 * The worker as an operating-system process: spawn with exactly the descriptors that it needs,
 * kill, reap.
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_CHILD_PROCESS_H
#define SHOAL_FRONTEND_SERVE_WORKER_CHILD_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "frontend/serve/settings/options.h"
#include "frontend/serve/worker/weight_holder.h"
#include "frontend/serve/worker/worker_link.h"

struct child_process {
    pid_t pid; /* 0: none */
    int pid_fd;
};

/* Which worker. */
struct child_process_config {
    const struct options *options;
    struct worker_link_fds link;
    struct weight_holder_fds weights;
    uint32_t worker_index;
    uint32_t device_workers;    /* that share its device, this one with them */
    const char *pipeline_cache; /* folder, or NULL */
};

#define CHILD_PROCESS_PATH_BYTES 4096u

/* Writes the path of the worker program: `shoal-worker` beside this program's own file. */
enum result child_process_find(char path[CHILD_PROCESS_PATH_BYTES],
                               struct error_text *error) RESULT_CHECKED;
/* Spawns it. Called from the thread that lives as long as this process: the kernel kills the worker
 * when that thread ends. */
enum result child_process_spawn(const struct child_process_config *config,
                                struct child_process *process,
                                struct error_text *error) RESULT_CHECKED;
void child_process_kill(const struct child_process *process);
/* Waits until it has ended; writes how in words ("exit status 1", "killed by signal 9 (Killed)").
 * True for exit status 0. */
bool child_process_reap(struct child_process *process, struct error_text *how);

#endif
