/*
 * The worker as a process of the operating system: spawn with only the descriptors that it needs,
 * kill, reap.
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_CHILD_PROCESS_H
#define SHOAL_FRONTEND_SERVE_WORKER_CHILD_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "frontend/base/program_spawn.h"
#include "frontend/serve/settings/options.h"
#include "frontend/serve/worker/vault_holder.h"
#include "frontend/serve/worker/worker_link.h"

struct child_process {
    pid_t pid; /* 0: none */
    int pid_fd;
};

/* Descriptors by which its end is seen (worker_lifeline.h), or -1. */
struct child_lifeline_fds {
    int life;
    int work;
};

/* Settings of one worker. */
struct child_process_config {
    const struct options *options;
    struct worker_link_fds link;
    struct vault_holder_fds weights;
    int kv_memory; /* vault of the worker's KV cache, or -1 */
    struct vault_holder_fds kv_device;
    int adapters;    /* memory of adapters, or -1 */
    int prefix_load; /* file of a saved prefix cache, or -1 */
    int prefix_save; /* file for the prefix cache of the worker, or -1 */
    int standby;     /* eventfd that it waits for once it has loaded, or -1 */
    struct child_lifeline_fds lifeline;
    uint32_t worker_index;
    uint32_t device_workers;      /* number of workers that share its device, this one included */
    const char *pipeline_cache;   /* folder, or NULL */
    const char *checkpoint_files; /* that it may open (proto/checkpoint_files.h), or NULL: any */
    const struct opened_files *checkpoint_opened; /* these, which it inherits; or NULL */
};

/* Writes the path of the worker program: `shoal-worker` beside this program's own file. */
enum result child_process_find(char path[PROGRAM_PATH_BYTES],
                               struct error_text *error) RESULT_CHECKED;
/* Spawns it. Call it from a thread that lives as long as this process: the kernel kills the worker
 * when that thread ends. */
enum result child_process_spawn(const struct child_process_config *config,
                                struct child_process *process,
                                struct error_text *error) RESULT_CHECKED;
void child_process_kill(const struct child_process *process);
/* Waits until it has ended and writes how ("exit status 1", "killed by signal 9 (Killed)"). Returns
 * waitpid()'s status. */
int child_process_reap(struct child_process *process, struct error_text *how);

#endif
