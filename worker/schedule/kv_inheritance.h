/*
 * What this worker takes over from the one that died: KV blocks, checkpoints of recurrent state,
 * the prefix index over them, and features of images (worker/cache/README.md, "After a death"). The
 * first worker of a server gets the same from a file that the last worker of an earlier server has
 * saved.
 *
 * In order: identify, limit, open (before the backend is loaded), settle (after it), and save when
 * the worker has drained. Every failure leaves a worker that keeps nothing for the next one, with the
 * reason in the log.
 */
#ifndef SHOAL_WORKER_SCHEDULE_KV_INHERITANCE_H
#define SHOAL_WORKER_SCHEDULE_KV_INHERITANCE_H

#include "worker/backend/host/backend.h"
#include "worker/cache/feature_cache.h"
#include "worker/cache/kv_budget.h"
#include "worker/cache/kv_vault.h"
#include "worker/cache/prefix_cache.h"
#include "worker/cache/prefix_file.h"
#include "worker/schedule/worker_options.h"

struct kv_inheritance {
    const struct worker_options *options;
    bool is_on; /* the vault is given, usable, and the prefix cache is on */
    uint64_t identity;
    struct kv_vault vault;
    struct kv_ledger *ledger;          /* NULL: none */
    struct feature_ledger *features;   /* NULL: none */
    struct prefix_file_pools saved;    /* the pools as a file describes them; not mapped */
    uint64_t pool_bytes;               /* of all pools in host memory; 0: they are on a device: */
    struct backend *backend;           /* which copies their blocks; NULL: none to copy */
    uint32_t first_checkpoint;         /* slot of recurrent state */
    struct prefix_file_figures loaded; /* from a file */
};

/* Whether the options give a vault, and what its contents must be made from; fills the descriptors of
 * backend->kept. `vision` and `feature_rows` of the backend's options are set before. */
void kv_inheritance_identify(struct kv_inheritance *inheritance,
                             const struct worker_options *options, struct backend_options *backend);
/* The KV memory that the worker before used; 0: there is none to take over. */
uint64_t kv_inheritance_limit(const struct kv_inheritance *inheritance);
/* Opens the vault for this budget and completes backend->kept. */
void kv_inheritance_open(struct kv_inheritance *inheritance, const struct plan *plan,
                         const struct kv_budget *budget, uint64_t limit_bytes,
                         struct backend_options *backend);
/* Creates the ledger of the pools that the backend has loaded; its records are valid as far as the
 * backend has adopted the pools' contents. */
void kv_inheritance_settle(struct kv_inheritance *inheritance, struct backend *backend,
                           const struct backend_options *options);
/* Logs what was taken over. */
void kv_inheritance_log(const struct kv_inheritance *inheritance,
                        const struct prefix_restored *restored,
                        const struct feature_restored *features);
/* Writes the prefix cache to the file of --prefix-save-fd, if there is one. After the engine has
 * ended. False: the file is not complete. */
bool kv_inheritance_save(struct kv_inheritance *inheritance);
/* After the engine has ended. */
void kv_inheritance_fini(struct kv_inheritance *inheritance);

#endif
