/*
 * From a request's bytes to its tokens: admission, preparation, worker, and back. Independent of
 * HTTP, so that `shoal serve` and `shoal generate` share it. All functions are called from, and
 * call back on, the event loop's thread.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_CHAT_ENGINE_H
#define SHOAL_FRONTEND_SERVE_ENGINE_CHAT_ENGINE_H

#include "frontend/serve/engine/live_request.h"
#include "frontend/serve/engine/prepare_pool.h"
#include "frontend/serve/settings/options.h"

struct adapter_changes;
struct chat_engine;

struct chat_engine_config {
    struct event_base *base;
    const struct options *options; /* outlives the engine */
    int state_directory;           /* of --state-dir, the caller's; -1: none */
    struct keyed_hash_key key;     /* of hashes of images (tenant_salt.h) */
    struct cache_salts
        tenants; /* whose prompts are computed (prompt_warming.h); it outlives the engine */
    void *context;
    void (*ready)(void *context);                   /* first, and after every restart */
    void (*failed)(void *context, const char *why); /* the model can never be served */
    void (*drained)(void *context);                 /* after chat_engine_drain() */
};

enum result chat_engine_create(const struct chat_engine_config *config, struct chat_engine **engine,
                               struct error_text *error) RESULT_CHECKED;
void chat_engine_destroy(struct chat_engine *engine);

/* Takes over input->body in any case. On RESULT_OK the sink is called until the request ends or is
 * cancelled. Otherwise *error is the reply: 503 while loading, restarting or draining, 429 if the
 * queue is full; both are decided before a byte is parsed. */
enum result chat_engine_admit(struct chat_engine *engine, struct prepare_input *input,
                              const struct live_request_sink *sink, void *sink_context,
                              struct live_request **request,
                              struct api_error *error) RESULT_CHECKED;
/* A live request for another answer to the body of `first` (generation_share.h). Called within the
 * sink's prepared() of `first`, once for each; there is room for it. */
struct live_request *chat_engine_share(struct live_request *first, uint32_t answer,
                                       const struct live_request_sink *sink, void *sink_context);
/* Called within the sink's finished() of `request`: another request of the same client goes on in its place, with the
 * same sink, whose follows() is called as soon as the slot is free. `prepared` is the engine's. */
void chat_engine_follow(struct live_request *request, const struct prepared_generation *prepared);
/* The client is gone: the request's work stops within a step. Not allowed within token(), which
 * returns true instead. */
void chat_engine_cancel(struct chat_engine *engine, struct live_request *request);

/* Like prepare_pool_inspect(): a preparation thread answers, independent of workers. Takes over
 * input->body in any case. 503 before the model is known and while draining. The caller limits
 * their number. */
enum result chat_engine_inspect(struct chat_engine *engine, struct prepare_input *input,
                                inspection *inspect, inspect_done *done, void *context,
                                struct prepare_job **job, struct api_error *error) RESULT_CHECKED;
/* Drops an inspection whose client is gone. */
void chat_engine_drop_inspection(struct chat_engine *engine, struct prepare_job *job);

/* RESULT_OK if a request would be admitted now, otherwise the 503. While a worker that had worked
 * is being replaced, requests are admitted and wait. */
enum result chat_engine_check_ready(const struct chat_engine *engine,
                                    struct api_error *error) RESULT_CHECKED;
/* NULL until they are open. */
const struct model_assets *chat_engine_assets(const struct chat_engine *engine);

/* Admits no more requests; drained() is called once the last request has ended and the workers have
 * exited. */
void chat_engine_drain(struct chat_engine *engine);
/* Every ready worker clears its caches; returns the number of ready workers. */
uint32_t chat_engine_reset_caches(struct chat_engine *engine);
/* NULL: adapters are not loaded at run time. */
struct adapter_changes *chat_engine_adapter_changes(struct chat_engine *engine);
/* Its prefix caches are not saved any more: another server has the directory. */
void chat_engine_end_saving(struct chat_engine *engine);
/* Removes a conviction (poison_memory.h), so that the request is admitted again. False if there is
 * none with this id. */
bool chat_engine_revoke(struct chat_engine *engine, uint64_t conviction);
/* Ends every request that is still live, and every load of an adapter. */
void chat_engine_fail_all(struct chat_engine *engine, const struct api_error *error);

#endif
