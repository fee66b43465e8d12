/*
 * From the queues to the workers.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_REQUEST_DISPATCH_H
#define SHOAL_FRONTEND_SERVE_ENGINE_REQUEST_DISPATCH_H

#include "frontend/serve/engine/engine_state.h"

/* The queue of a WAITING request. */
struct waiting_queue *request_dispatch_queue(struct chat_engine *engine,
                                             const struct live_request *request);
/* Puts a WAITING request into its queue, at its place by arrival. */
void request_dispatch_enqueue(struct chat_engine *engine, struct live_request *request);

/* Decides whether a request that was taken from a dead worker, is in no queue and no suspect waits for that worker's restart. */
void request_dispatch_choose_resume(struct chat_engine *engine, struct live_request *request);

/* Ends a request that is in no queue if its fingerprint is in the poison memory. */
bool request_dispatch_refuse_known(struct chat_engine *engine, struct live_request *request);

/* Submits what can be submitted now. Call it whenever a request was queued or a worker may have
 * room. */
void request_dispatch_run(struct chat_engine *engine);

/* Acquits a suspect on trial that got past the place of the crashes. */
void request_dispatch_acquit(struct chat_engine *engine, struct live_request *request);
/* The culprit is known: acquits the other suspects. */
void request_dispatch_clear_suspects(struct chat_engine *engine);
/* `worker` was killed from outside: acquits suspects that it did not have (poison_policy.h). */
void request_dispatch_note_outside_kill(struct chat_engine *engine, uint32_t worker);
/* Ends the request, keeps its fingerprint and logs it. `cause`: of the last death. Not while the
 * request is in a queue. */
void request_dispatch_convict(struct chat_engine *engine, struct live_request *request,
                              enum death_cause cause);

#endif
