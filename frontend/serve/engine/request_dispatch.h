/*
 * From the queues to the workers.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_REQUEST_DISPATCH_H
#define SHOAL_FRONTEND_SERVE_ENGINE_REQUEST_DISPATCH_H

#include "frontend/serve/engine/engine_state.h"

/* Puts a request that is WAITING into the queue that it belongs to, at its place by arrival. */
void request_dispatch_enqueue(struct chat_engine *engine, struct live_request *request);

/* Ends a request that is in no queue if it is known to kill workers. */
bool request_dispatch_refuse_known(struct chat_engine *engine, struct live_request *request);

/* Hands out what can be handed out now. To be called whenever a request was queued or a worker may
 * have room. */
void request_dispatch_run(struct chat_engine *engine);

/* A suspect on trial has got past the place where workers died: it is as innocent as any other. */
void request_dispatch_acquit(struct chat_engine *engine, struct live_request *request);
/* The culprit is known: everyone else who was suspected with it is not, any more. */
void request_dispatch_clear_suspects(struct chat_engine *engine);
/* Ends the request, remembers its fingerprint and says so. Not while it is in a queue. */
void request_dispatch_convict(struct chat_engine *engine, struct live_request *request);

#endif
