/*
 * What happens to a dead worker's requests.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_WORKER_LOSS_H
#define SHOAL_FRONTEND_SERVE_ENGINE_WORKER_LOSS_H

#include "frontend/serve/engine/engine_state.h"

/* `worker` has died, and its link still exists. Requeues its requests; ends those that were
 * complete. */
void worker_loss_handle(struct chat_engine *engine, uint32_t worker);

#endif
