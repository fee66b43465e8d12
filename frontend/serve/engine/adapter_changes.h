/*
 * LoRA adapters that are loaded and unloaded while the server runs.
 *
 * A load copies the files on a thread of its own, then asks every ready worker to read them; requests find the
 * adapter once all have it. Loads are done one after the other. An unloaded adapter is found by no request at
 * once, and taken from the workers when the last request that names it has ended.
 *
 * A worker that starts reads the adapters in use; workers that started meanwhile are asked when they are ready, and
 * before the first request that could name an adapter, because records of one worker keep their order.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_ADAPTER_CHANGES_H
#define SHOAL_FRONTEND_SERVE_ENGINE_ADAPTER_CHANGES_H

#include "frontend/assets/adapter_set.h"
#include "frontend/base/api_error.h"
#include "frontend/serve/worker/worker_pool.h"

struct adapter_changes;
struct adapter_load;

struct adapter_changes_config {
    struct event_base *base;
    struct adapter_set *set; /* outlives the changes, like the next two */
    struct worker_pool *workers;
    const char *directory;   /* adapters' paths must lie in it; NULL: nothing is loaded */
    uint32_t answer_limit_s; /* that workers may take to read one */
};

struct adapter_changes *adapter_changes_create(const struct adapter_changes_config *config);
/* Ends every load with an error. False: a file system hangs, and the thread that reads from it may use the set later: it is not to
 * be destroyed. NULL is allowed. */
bool adapter_changes_destroy(struct adapter_changes *changes);

/* `error` NULL: requests find the adapter. */
typedef void adapter_load_done(void *context, const struct api_error *error);

/* `path` is relative to the directory, or absolute. `replaces`: an adapter of the name, whose requests go on with it,
 * may be there. On RESULT_OK done() is called later, once; otherwise *error is the reply. */
enum result adapter_changes_load(struct adapter_changes *changes, const char *name,
                                 const char *path, bool replaces, adapter_load_done *done,
                                 void *context, struct adapter_load **load,
                                 struct api_error *error) RESULT_CHECKED;
/* The load goes on, and done() is not called. */
void adapter_changes_forget(struct adapter_load *load);
/* Answers every load with the error, as the engine's end does; the one under way goes on. */
void adapter_changes_fail_all(struct adapter_changes *changes, const struct api_error *error);
enum result adapter_changes_unload(struct adapter_changes *changes, const char *name,
                                   struct api_error *error) RESULT_CHECKED;

/* A checked TOKEN_EVENT_ADAPTER of a worker, while its event is handled. */
void adapter_changes_event(struct adapter_changes *changes, uint32_t worker,
                           const struct token_event *event);
void adapter_changes_worker_died(struct adapter_changes *changes, uint32_t worker);
/* A worker is ready: before requests are dispatched. */
void adapter_changes_worker_ready(struct adapter_changes *changes);

#endif
