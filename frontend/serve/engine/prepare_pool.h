/*
 * A few threads that do the slow part of requests (generation_prepare()) away from the event loop,
 * as many for requests with images, and some more for those whose images come over the network.
 * Requests without images never wait for the others.
 * Every function is called from the loop's thread; `done` is called there too.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_PREPARE_POOL_H
#define SHOAL_FRONTEND_SERVE_ENGINE_PREPARE_POOL_H

#include <stdbool.h>

#include "frontend/api/generation/generation_prepare.h"
#include "frontend/api/generation/inspection.h"
#include "frontend/base/body_coding.h"

struct event_base;
struct prepare_job;
struct prepare_pool;

struct prepare_input {
    char *body; /* malloc'd JSON; the pool frees it */
    size_t body_bytes;
    enum body_coding coding; /* of the body, which the pool unpacks */
    size_t most_body_bytes;  /* of an unpacked body */
    uint64_t random_seed;
    int64_t now_unix_s;              /* that a chat template sees; 0: the time of the preparation */
    char answer_id[64];              /* "": there is no answer */
    bool resumes;                    /* an answer of an earlier process */
    const struct api_format *format; /* reads the body; static */
    void *format_context;
    struct client_key client_key;
    struct cache_salt cache_salt; /* for the prepared request */
};

/* `prepared` is the callee's on RESULT_OK; otherwise `error` is set. */
typedef void prepare_done(void *context, enum result result, struct prepared_generation *prepared,
                          const struct api_error *error);

struct prepare_pool_config {
    struct event_base *base;
    const struct image_reader *reader; /* outlives the pool; NULL only if no model takes images */
    struct field_watch *fields;        /* outlives the pool; NULL: unknown fields are ignored */
    struct grammar_cache *grammars;    /* outlives the pool; NULL: nothing is cached */
    uint32_t threads;                  /* for texts, and as many for images */
    uint32_t network_threads;          /* 0 if nothing is ever fetched */
    /* A job that one lane works on for longer ends with a 503 `preparation_deadline`. */
    int64_t deadline_ms;
};
struct prepare_pool *prepare_pool_create(const struct prepare_pool_config *config);
/* Cancels the running jobs and waits for them; drops the rest without calling back. */
void prepare_pool_destroy(struct prepare_pool *pool);

/* Takes over the input. `assets` must outlive the pool. The caller limits the queue: one job for
 * each live request. */
struct prepare_job *prepare_pool_submit(struct prepare_pool *pool,
                                        const struct model_assets *assets,
                                        const struct prepare_input *input, prepare_done *done,
                                        void *context);
/* `reply` is the pool's and holds the answer on RESULT_OK; otherwise `error` is set. */
typedef void inspect_done(void *context, enum result result, const struct text_buffer *reply,
                          const struct api_error *error);
/* The same with `inspect` instead of the preparation; it gets body, seed, context and key of the
 * input. */
struct prepare_job *prepare_pool_inspect(struct prepare_pool *pool,
                                         const struct model_assets *assets,
                                         const struct prepare_input *input, inspection *inspect,
                                         inspect_done *done, void *context);
/* `done` will not be called. A waiting job is removed at once; a running job is cancelled: its
 * work ends soon, and its result is freed. */
void prepare_pool_drop(struct prepare_pool *pool, struct prepare_job *job);

struct prepare_figures {
    uint32_t busy_threads;
    uint64_t cancelled_total; /* dropped jobs */
    uint64_t timed_out_total;
};
void prepare_pool_read(struct prepare_pool *pool, struct prepare_figures *figures);

#endif
