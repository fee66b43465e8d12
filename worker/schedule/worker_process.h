/*
 * The worker from its first instruction to its exit status: attach, load, serve, end.
 */
#ifndef SHOAL_WORKER_SCHEDULE_WORKER_PROCESS_H
#define SHOAL_WORKER_SCHEDULE_WORKER_PROCESS_H

#include "worker/schedule/worker_options.h"

enum worker_exit {
    WORKER_EXIT_DONE = 0, /* drained, or the frontend is gone */
    WORKER_EXIT_CANNOT =
        2,               /* a setting or the checkpoint cannot work: starting again will not help */
    WORKER_EXIT_LOST = 3 /* a ring was corrupt or the backend failed: start again */
};

enum worker_exit worker_process_run(const struct worker_options *options);

#endif
