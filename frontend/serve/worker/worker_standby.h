/*
 * A worker's standby: a second process that has the device open, weights and KV memory imported and
 * every kernel made, and waits. When the serving process dies, the standby takes over: it reads the
 * KV cache's ledger and is ready, within milliseconds where a new process takes seconds on a GPU. It
 * needs no second copy of weights or KV cache, only the memory of a step.
 *
 *   NONE --begin--> LOADING --reports--> WAITING
 *    ^                 |                    |
 *    +---dies, take, drop-------------------+
 *
 * A standby that dies is begun again after a pause; one that dies RETRIES times in a row while it
 * loads is given up until the next begin.
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_WORKER_STANDBY_H
#define SHOAL_FRONTEND_SERVE_WORKER_WORKER_STANDBY_H

#include "frontend/serve/worker/worker_launch.h"

struct worker_standby;

/* `generation` is the worker's count of processes, which each process increases. */
struct worker_standby *worker_standby_create(const struct worker_settings *settings,
                                             uint32_t *generation);
/* Drops the process. NULL is allowed. */
void worker_standby_destroy(struct worker_standby *standby);

/* Starts the process if there is none. `prefix_save` as for the serving process: a descriptor that
 * stays open, or -1. Failures are logged. */
void worker_standby_begin(struct worker_standby *standby, int prefix_save);
/* Kills the process, if there is one, and waits for it. None follows before the next begin. */
void worker_standby_drop(struct worker_standby *standby);
/* True if one has loaded everything. */
bool worker_standby_waits(const struct worker_standby *standby);
/* After the serving process has ended (worker_lifeline.h) or was reaped: the process takes over, or will once it has loaded. False:
 * there is none. On success the caller owns the parts of *run, and the link is `owner`'s. */
bool worker_standby_take(struct worker_standby *standby, const struct worker_link_owner *owner,
                         struct worker_run *run);
/* 0: no process. */
int worker_standby_pid(const struct worker_standby *standby);
/* "none", "loading" or "waiting". */
const char *worker_standby_state_name(const struct worker_standby *standby);

#endif
