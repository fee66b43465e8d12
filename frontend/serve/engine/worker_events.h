/*
 * From workers to requests: tokens, progress, ends.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_WORKER_EVENTS_H
#define SHOAL_FRONTEND_SERVE_ENGINE_WORKER_EVENTS_H

#include "frontend/serve/engine/engine_state.h"

/* Functions of the worker_listener; `context` is the struct chat_engine. */

/* Handles one checked event of `worker`. RESULT_CORRUPT: it contradicts what the worker was given.
 */
enum result worker_events_handle(void *context, uint32_t worker,
                                 const struct token_event *event) RESULT_CHECKED;
/* Call after the events of one wake-up. */
void worker_events_end_batch(void *context);

/* The end that the last token in the request's journal reaches (proto/generation_end.h). */
enum finish_reason worker_events_find_end(const struct chat_engine *engine,
                                          const struct live_request *request);

#endif
