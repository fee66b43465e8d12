/*
 * The workers: each with its own supervisor, segment and load. Knows which requests' numbers are
 * where, not what a request is.
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
    uint32_t live_requests; /* slots of the request table */
    void *context;
    void (*ready)(void *context, uint32_t worker);
    /* Its link still exists, and is gone afterwards. Every request that it had is to be told to
     * worker_pool_note_done() before this returns. */
    void (*died)(void *context, uint32_t worker);
    /* None of the workers can ever start. */
    void (*failed)(void *context, const char *why);
    /* After worker_pool_drain(): all of them have ended. */
    void (*drained)(void *context);
    enum result (*event)(void *context, uint32_t worker, const struct token_event *event);
    void (*batch_end)(void *context);
};

/* Starts options->workers workers. */
enum result worker_pool_create(const struct worker_pool_config *config, struct worker_pool **pool,
                               struct error_text *error) RESULT_CHECKED;
/* Kills them and waits for them. */
void worker_pool_destroy(struct worker_pool *pool);

uint32_t worker_pool_count(const struct worker_pool *pool);
/* NULL while worker `worker` has no process. */
struct worker_link *worker_pool_link(const struct worker_pool *pool, uint32_t worker);
/* Whether a request may be admitted: some worker is ready, or its successor is being started. */
bool worker_pool_is_usable(const struct worker_pool *pool);
/* The first worker that is ready, or ROUTING_NONE. */
uint32_t worker_pool_find_ready(const struct worker_pool *pool);
/* None is ready, and all have died so often while starting that waiting for them is no use. */
bool worker_pool_is_hopeless(const struct worker_pool *pool);
/* 0 to 1: of the worker that is farthest. */
double worker_pool_load_progress(const struct worker_pool *pool);

/* The worker for a prompt, or ROUTING_NONE; not one whose bit is in `closed`. `reserve`: the least
 * busy one is kept free for a trial. */
uint32_t worker_pool_route(struct worker_pool *pool, const struct token_list *prompt,
                           uint32_t closed, bool reserve);
/* A ready worker that has no request at all, or ROUTING_NONE. */
uint32_t worker_pool_find_empty(const struct worker_pool *pool);

/* Bookkeeping of what a worker has. */
void worker_pool_note_submit(struct worker_pool *pool, uint32_t worker,
                             const struct token_list *prompt);
void worker_pool_note_token(struct worker_pool *pool, uint32_t worker);
void worker_pool_note_done(struct worker_pool *pool, uint32_t worker, struct request_id request);

/* While a worker has a trial it is closed to all others. */
void worker_pool_begin_trial(struct worker_pool *pool, uint32_t worker, struct request_id request);
void worker_pool_end_trial(struct worker_pool *pool, uint32_t worker);
bool worker_pool_trial(const struct worker_pool *pool, uint32_t worker, struct request_id *request);

/* It broke a rule: it is killed, and died() follows from the loop. */
void worker_pool_condemn(struct worker_pool *pool, uint32_t worker, const char *why);
void worker_pool_drain(struct worker_pool *pool);
/* Every ready worker forgets its caches; returns how many are ready. */
uint32_t worker_pool_reset_caches(struct worker_pool *pool);

/* Figures at hand: waits for nobody. */
void worker_pool_read_status(const struct worker_pool *pool, uint32_t worker,
                             struct worker_status *status);

#endif
