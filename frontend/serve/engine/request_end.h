/*
 * The ends of a request: finished (a worker or a stop string), failed (refused, a worker's refusal,
 * poison), withdrawn (its client, a drain that takes too long).
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_REQUEST_END_H
#define SHOAL_FRONTEND_SERVE_ENGINE_REQUEST_END_H

#include "frontend/serve/engine/engine_state.h"

/* These two call the sink for the last time. Not while the request is in a queue. */
void request_end_finish(struct chat_engine *engine, struct live_request *request,
                        enum finish_reason finish);
void request_end_fail(struct chat_engine *engine, struct live_request *request,
                      const struct api_error *error);
/* Removes the request from preparation, queue or worker; the sink is not called. */
void request_end_withdraw(struct chat_engine *engine, struct live_request *request,
                          enum request_outcome outcome);

/* Ends the worker's part of a LEAVING request. */
void request_end_worker_done(struct chat_engine *engine, struct live_request *request);
/* Asks the request's worker to cancel it. */
void request_end_cancel(struct chat_engine *engine, const struct live_request *request);
/* Ends the workers once the last request of a draining engine is gone. */
void request_end_check_drain(struct chat_engine *engine);

#endif
