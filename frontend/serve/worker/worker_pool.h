/*
 * The workers, each with its own supervisor, segment and load. It counts the requests of each
 * worker and does not know what a request is.
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_WORKER_POOL_H
#define SHOAL_FRONTEND_SERVE_WORKER_WORKER_POOL_H

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "frontend/serve/worker/routing_policy.h"
#include "frontend/serve/worker/worker_supervisor.h"

struct worker_pool;

struct worker_pool_config {
    struct event_base *base;
    const struct options *options;
    /* The files that workers may open (proto/checkpoint_files.h), or NULL: any; outlives the pool. */
    const char *checkpoint_files;
    const struct opened_files *checkpoint_opened; /* these, open; NULL: they open them by name */
    int state_directory;                          /* of --state-dir, the caller's; -1: none */
    int adapter_memory;     /* descriptor of the adapters' memory, the caller's; -1: none */
    uint32_t live_requests; /* slots of the request table */
    struct worker_listener listener; /* of every worker; its context is also died()'s */
    /* Worker `worker` is dead. Its link exists until this returns; before that, call
     * worker_pool_note_done() for each of its requests. */
    void (*died)(void *context, uint32_t worker, enum death_cause cause);
    void *owner; /* the server or the command: argument of the two functions below */
    /* No worker can be started any more. */
    void (*failed)(void *owner, const char *why);
    /* All workers have ended after worker_pool_drain(). */
    void (*drained)(void *owner);
};

/* Starts options->workers workers. */
enum result worker_pool_create(const struct worker_pool_config *config, struct worker_pool **pool,
                               struct error_text *error) RESULT_CHECKED;
/* Kills the workers and waits for their end. */
void worker_pool_destroy(struct worker_pool *pool);

uint32_t worker_pool_count(const struct worker_pool *pool);
/* NULL while worker `worker` has no process. */
struct worker_link *worker_pool_link(const struct worker_pool *pool, uint32_t worker);
/* True if a request may be admitted: some worker is ready, or its successor is being started. */
bool worker_pool_is_usable(const struct worker_pool *pool);
/* The first worker that is ready, or ROUTING_NONE. */
uint32_t worker_pool_find_ready(const struct worker_pool *pool);
/* True if no worker is ready and all have died so often while starting that requests should not
 * wait. */
bool worker_pool_is_hopeless(const struct worker_pool *pool);
/* Maximum of the workers' load progress, 0 to 1. */
double worker_pool_load_progress(const struct worker_pool *pool);

/* The worker is ready and has no trial. */
bool worker_pool_is_open(const struct worker_pool *pool, uint32_t worker);
/* The worker died, the next one is being started and takes over its KV cache, and there are other workers. */
bool worker_pool_is_resuming_with_cache(const struct worker_pool *pool, uint32_t worker);
/* The worker for a prompt, or ROUTING_NONE. Skips workers whose bit is in `closed` and, with
 * `reserve`, the least busy one, which is kept free for a trial. */
uint32_t worker_pool_route(struct worker_pool *pool, const struct token_list *prompt,
                           uint32_t closed, bool reserve);
/* A ready worker without requests, or ROUTING_NONE. */
uint32_t worker_pool_find_empty(const struct worker_pool *pool);

/* Keeps count of a worker's requests. */
void worker_pool_note_submit(struct worker_pool *pool, uint32_t worker,
                             const struct token_list *prompt);
void worker_pool_note_token(struct worker_pool *pool, uint32_t worker);
void worker_pool_note_done(struct worker_pool *pool, uint32_t worker, struct request_id request);

/* During a trial a worker gets no other request. */
void worker_pool_begin_trial(struct worker_pool *pool, uint32_t worker, struct request_id request);
void worker_pool_end_trial(struct worker_pool *pool, uint32_t worker);
bool worker_pool_trial(const struct worker_pool *pool, uint32_t worker, struct request_id *request);

/* Kills a worker that broke a rule; died() follows from the loop. */
void worker_pool_condemn(struct worker_pool *pool, uint32_t worker, const char *why);
void worker_pool_drain(struct worker_pool *pool);
/* The caches of one worker, as worker_supervisor_reset_cache(). */
void worker_pool_reset_cache(struct worker_pool *pool, uint32_t worker);
/* Clears the caches of every worker, before its next request (worker_supervisor_reset_cache()), and
 * removes saved files. Returns the number of workers that will do so. */
uint32_t worker_pool_reset_caches(struct worker_pool *pool);

/* worker_supervisor_read_adapter() of a worker. */
bool worker_pool_read_adapter(struct worker_pool *pool, uint32_t worker, struct adapter_id adapter);
/* worker_supervisor_end_saving() of all. */
void worker_pool_end_saving(struct worker_pool *pool);

/* Reads the published figures; never waits for a worker. */
void worker_pool_read_status(const struct worker_pool *pool, uint32_t worker,
                             struct worker_status *status);

#endif
