/*
 * Runs a worker process: attach, load, serve, exit.
 */
#ifndef SHOAL_WORKER_SCHEDULE_WORKER_PROCESS_H
#define SHOAL_WORKER_SCHEDULE_WORKER_PROCESS_H

#include "worker/schedule/worker_options.h"

enum worker_exit {
    WORKER_EXIT_DONE = 0,   /* drained, or the frontend has exited */
    WORKER_EXIT_CANNOT = 2, /* a setting or the checkpoint cannot work: do not restart */
    WORKER_EXIT_LOST = 3,   /* a ring was corrupt or the backend failed: restart */
    WORKER_EXIT_UNSAVED = 4 /* drained, but the file of the prefix cache is not complete */
};

enum worker_exit worker_process_run(const struct worker_options *options);

#endif
