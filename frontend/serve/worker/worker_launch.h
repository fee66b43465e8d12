/*
 * Starts a process of a worker on a segment of its own. Every process of one worker, the serving one
 * and its standby, has the same settings and the same vaults.
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_WORKER_LAUNCH_H
#define SHOAL_FRONTEND_SERVE_WORKER_WORKER_LAUNCH_H

#include "frontend/serve/settings/options.h"
#include "frontend/serve/worker/child_process.h"
#include "frontend/serve/worker/vault_holder.h"
#include "frontend/serve/worker/worker_lifeline.h"
#include "frontend/serve/worker/worker_link.h"

struct worker_settings {
    struct event_base *base;
    const struct options *options;
    struct vault_holder *weights;   /* may be shared with other workers */
    struct vault_holder *kv_memory; /* of this worker's KV cache; NULL: it ends with the process */
    struct vault_holder
        *kv_device;               /* NULL: the KV cache is host memory, or ends with the process */
    int adapter_memory;           /* descriptor of the adapters' memory, or -1 */
    uint32_t device_workers;      /* number of workers that share the device */
    const char *pipeline_cache;   /* folder, or NULL */
    const char *checkpoint_files; /* that it may open (proto/checkpoint_files.h), or NULL: any */
    const struct opened_files *checkpoint_opened; /* these, open; or NULL */
    uint32_t index;                               /* index in the pool, for the worker's name */
    uint32_t live_requests;
};

struct worker_launch {
    uint32_t generation; /* number of the process among all of this worker; the first is 1 */
    struct worker_link_owner owner;
    int prefix_load; /* file of a saved prefix cache, or -1 */
    int prefix_save; /* file for the prefix cache, or -1 */
    int standby_fd;  /* eventfd that the process waits for once it has loaded, or -1 */
};

struct worker_run {
    struct child_process process;
    struct worker_link *link;         /* NULL: no process */
    struct worker_lifeline *lifeline; /* NULL: its end is seen when it can be reaped */
};

/* On success the caller owns all parts of the run. */
enum result worker_launch(const struct worker_settings *settings,
                          const struct worker_launch *launch, struct worker_run *run,
                          struct error_text *error) RESULT_CHECKED;
/* Frees all parts but the process. */
void worker_run_clear(struct worker_run *run);

#endif
