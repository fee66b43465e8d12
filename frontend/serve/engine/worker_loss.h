/*
 * What happens to a dead worker's requests.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_WORKER_LOSS_H
#define SHOAL_FRONTEND_SERVE_ENGINE_WORKER_LOSS_H

#include "frontend/serve/engine/engine_state.h"

/* A callback of worker_pool_config; `context` is the struct chat_engine. `worker` has died, and its
 * link still exists. Requeues its requests; ends those that were complete or are convicted. */
void worker_loss_handle(void *context, uint32_t worker, enum death_cause cause);

#endif
